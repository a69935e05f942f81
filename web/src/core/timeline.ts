import type { Reader } from './module.js';
import type { Category, Columns, OutOfMemory, Phase, Stretch, TimelineRow } from './types.js';

/** What the module says of a step beside the arrays. */
export interface Head {
  step: number;
  labels: string[];
  categories: Category[];
  phases: Phase[];
  ops: string[];
  oom: OutOfMemory | null;
}

/** A step event by event: one array per column of the table, `count` long, the reader's own to keep. */
export class Timeline {
  /** 0: the setup. */
  readonly step: number;
  readonly count: number;
  /** Set if the run ends in this step, after the last row. */
  readonly oom: OutOfMemory | null;
  /** Names by index, for `category`, `phase`, `op`, `label`. */
  readonly categories: readonly Category[];
  readonly phases: readonly Phase[];
  readonly ops: readonly string[];
  readonly labels: readonly string[];

  /** Number from the start of the program: what ledger() and pool() take. */
  readonly event: Float64Array;
  readonly bytes: Float64Array;
  readonly allocated: Float64Array;
  readonly reserved: Float64Array;
  /** `category[c * count + row]`: bytes of category c alive after the event. */
  readonly category: Float64Array;
  readonly label: Uint32Array;
  /** -1 for none. */
  readonly layer: Int16Array;
  readonly phase: Uint8Array;
  readonly op: Uint8Array;
  /** 1: an allocation, 0: a free. */
  readonly alloc: Uint8Array;

  /** First row of the highest `allocated`. */
  readonly peak: number;
  readonly stretches: readonly Stretch[];

  readonly #columns: (begin: number, end: number, width: number) => Columns;

  constructor(head: Head, arrays: Reader, columns: (begin: number, end: number, width: number) => Columns) {
    this.step = head.step;
    this.count = arrays.count;
    this.oom = head.oom;
    this.categories = head.categories;
    this.phases = head.phases;
    this.ops = head.ops;
    this.labels = head.labels;
    this.event = arrays.f64();
    this.bytes = arrays.f64();
    this.allocated = arrays.f64();
    this.reserved = arrays.f64();
    this.category = arrays.f64(head.categories.length);
    this.label = arrays.u32();
    this.layer = arrays.i16();
    this.phase = arrays.u8();
    this.op = arrays.u8();
    this.alloc = arrays.u8();
    this.#columns = columns;
    let peak = 0;
    const stretches: Stretch[] = [];
    for (let row = 0; row < this.count; ++row) {
      if (this.allocated[row]! > this.allocated[peak]!) peak = row;
      const phase = this.phases[this.phase[row]!]!;
      const last = stretches.at(-1);
      if (last?.phase === phase) last.end = row + 1;
      else stretches.push({ phase, begin: row, end: row + 1 });
    }
    this.peak = peak;
    this.stretches = stretches;
  }

  row(index: number): TimelineRow {
    const op = this.ops[this.op[index]!] ?? '';
    const layer = this.layer[index]!;
    return {
      event: this.event[index]!,
      alloc: this.alloc[index] === 1,
      bytes: this.bytes[index]!,
      phase: this.phases[this.phase[index]!]!,
      layer: layer < 0 ? null : layer,
      op,
      label: this.labels[this.label[index]!] || op,
      allocated: this.allocated[index]!,
      reserved: this.reserved[index]!,
    };
  }

  /** Rows [begin, end) in `width` columns. Works while the run is open. */
  columns(begin: number, end: number, width: number): Columns {
    return this.#columns(begin, end, width);
  }
}
