// The core's language, and the little that the page adds to it.
import type { Advices as CoreAdvices, Columns, Json, OutOfMemory, SweepCells, TimelineRow } from '../core/types.js';

export type {
  Advice, Columns, Counters, DevicePreset, Json, Ledger, LedgerRow, ModelPreset, Moment, OutOfMemory, Pool, PoolBlock, PoolSegment, Problem,
  Report, Request, Summary, SweepCells, TimelineRow,
} from '../core/types.js';

export type { Recording, RecordingOptions } from '../core/recording.js';
export type { Cause, Comparison, RecordedColumns, RecordedMoment, RecordingSummary } from '../core/types.js';

export interface Fit {
  largest: number;
  /** The largest that may be asked fits: nothing was seen to fail. */
  capped: boolean;
  first_failure_at: number | null;
  first_failure: OutOfMemory | null;
  bound_by: 'allocated' | 'reserved' | null;
}

export interface Advices extends CoreAdvices {
  /** False while changes are still being tried. */
  done: boolean;
}

export interface SweepCell {
  batch: number;
  seq_len: number;
  allocated: number;
  reserved: number;
  fits: boolean;
  /** Neither fails nor ever repeats: some later step may fail. */
  drifts: boolean;
}

export function cellAt(cells: SweepCells, i: number): SweepCell {
  return { batch: cells.batch[i]!, seq_len: cells.seq_len[i]!, allocated: cells.allocated[i]!, reserved: cells.reserved[i]!, fits: cells.fits[i] === 1, drifts: cells.fits[i] === 0 && cells.failed_step[i] === 0 };
}

/** Rows [begin, end) of one phase. */
export interface Stretch {
  name: string;
  begin: number;
  end: number;
}

/** The step event by event. Rows and columns are read on demand. */
export interface Timeline {
  readonly step: number;
  readonly count: number;
  readonly phases: Stretch[];
  /** Row of the highest `allocated`. */
  readonly peak: number;
  readonly oom: OutOfMemory | null;
  row(index: number): TimelineRow;
  /** Of the event with this number, or the nearest. */
  rowOf(event: number): number;
  columns(begin: number, end: number, width: number): Columns;
}

export function isJsonObject(value: Json | undefined): value is { [key: string]: Json } {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
