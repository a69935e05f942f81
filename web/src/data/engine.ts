// What the element needs of the core: one instance per page, one open run per request. The adapter to the WebAssembly loader is
// in adapter.ts; tests bring their own.
import type { Job } from '../core/jobs.js';
import type { Advices, DevicePreset, Fit, Ledger, ModelPreset, Pool, Problem, Report, Request, Summary, SweepCells, Timeline } from './types.js';

export type { Job } from '../core/jobs.js';

/** A request that the core holds open. */
export interface Run {
  /** Every key written out. */
  readonly request: Request;
  report(): Report;
  /** The report without its hashes and ledger: quick enough for every frame of a drag. */
  summary(): Summary;
  /** Step 0 is the setup, -1 the last. */
  timeline(step?: number): Timeline;
  ledger(event: number): Ledger;
  pool(event: number): Pool;
  fit(): Job<Fit>;
  advise(): Job<Advices>;
  sweep(batches: readonly number[], seqLens: readonly number[]): Job<SweepCells>;
  close(): void;
}

export interface Engine {
  readonly devices: DevicePreset[];
  readonly models: ModelPreset[];
  readonly modelsToCome: string[];
  /** A run, or what is wrong with the request. */
  open(request: Request | string): Run | Problem[];
}
