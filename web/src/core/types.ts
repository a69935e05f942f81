// The core's language: requests and answers as the contract (README.md) has them, and typed arrays where a picture is drawn.
// All sizes are bytes, as doubles: exact to 2^53.

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** A request: keys of the contract (snake_case), every one optional but `model`. */
export type Request = { [key: string]: Json };

/** Something wrong with a request. */
export interface Problem {
  /** Dotted path, "device.total_mib"; "request" for the whole text. */
  key: string;
  /** What was given, as text, cut to a line; empty for a statement. */
  value: string;
  /** What is allowed: "must be a whole number from 1 to 1048576". */
  message: string;
  kind: 'not-allowed' | 'unsupported' | 'statement';
  /** The whole as one line for a person. */
  line: string;
}

export interface Counters {
  /** torch.cuda.memory_allocated() */
  allocated: number;
  /** torch.cuda.memory_reserved() */
  reserved: number;
}

export type Phase = 'warmup' | 'model' | 'optimizer' | 'forward' | 'backward' | 'clip' | 'optimizer_step' | 'zero_grad';

export type Category =
  | 'parameters'
  | 'gradients'
  | 'optimizer_state'
  | 'buffers'
  | 'workspaces'
  | 'activations'
  | 'attention'
  | 'logits'
  | 'temporaries'
  | 'inputs'
  | 'rounding';

export type Categories = Record<Category, number>;

/** A place in the run. */
export interface Moment {
  /** From 1; 0 before the first. */
  step: number;
  phase: Phase;
  layer: number | null;
  op: string;
  /** Allocations and frees before it, from the start of the program. */
  event: number;
  /** By the allocation that happens there. */
  requested: number;
}

/** `requested` is the segment that was refused, `tensor` what was asked for. */
export interface OutOfMemory extends Moment, Counters {
  tensor: number;
  free: number;
  cached_free: number;
  largest_piece: number;
  peak: Counters;
  message: string;
}

export interface LedgerRow {
  category: Category;
  label: string;
  layer: number | null;
  op: string;
  shape: number[];
  dtype: string;
  /** Tensors alike that the row stands for. */
  count: number;
  /** Of all of them. */
  bytes: number;
  /** Of one, in B, T, C, NH, V and P; may be empty. */
  formula: string;
}

/** Everything alive at one moment; the rows sum to `allocated`. */
export interface Ledger extends Counters {
  at: Moment;
  categories: Categories;
  ledger: LedgerRow[];
}

export type StepReading = 'before' | 'after_forward' | 'after_backward' | 'after_optimizer_step' | 'after_zero_grad' | 'peak';

/** How long an optimizer step takes, from what its operators compute and move. */
export interface Time {
  /** Of all ranks; the other figures are one rank's. */
  tokens: number;
  flops: number;
  flops_recomputed: number;
  /** (6·N + 12·L·C·T) · tokens */
  flops_by_rule: number;
  bytes_moved: number;
  optimizer_bytes_moved: number;
  operators: number;
  /** Why there is no time. */
  unknown?: string;
  /** In words: which shares of the card's rates. */
  assumed?: string;
  /** From the fastest to the slowest. */
  microseconds?: [number, number];
  tokens_per_second?: [number, number];
}

export interface Report {
  schema_version: 1;
  request: Request;
  verdict: 'fits' | 'oom';
  parameters: number;
  program_hash: string;
  trace_hash: string;
  after_warmup: Counters | null;
  after_model: Counters | null;
  after_optimizer: Counters | null;
  /** Readings after a failure are absent. */
  steps: Partial<Record<StepReading, Counters>>[];
  peak: Counters & { device: number; at: Moment };
  steady_peak: Counters | null;
  oom: OutOfMemory | null;
  alloc_retries: number;
  settled: { step: number; period: number } | null;
  ledger: LedgerRow[];
  categories: Categories;
  time?: Time;
  accuracy: {
    basis: 'replay' | 'formula' | 'table';
    measured_rows_near: number;
    /** percent */ error_band: number | null;
    words?: string;
    /** Runs on real cards; null for a formula. The band: errors of their peaks in millionths, negative where predicted too low. */
    real_cards: {
      near: number;
      family: number;
      all: number;
      band: { of: 'near' | 'family' | 'all'; least_ppm: number; most_ppm: number };
      words: string;
    } | null;
  };
  assumptions: string[];
}

/** What a frame of a drag needs. */
export type Summary = Omit<Report, 'program_hash' | 'trace_hash' | 'ledger'>;

/** The report of the largest value (absent when not even 1 fits) and what the search found. */
export interface Fit extends Partial<Report> {
  axis: 'batch' | 'seq-len';
  largest_batch?: number;
  largest_seq_len?: number;
  /** The largest that may be asked fits: nothing was seen to fail. */
  capped: boolean;
  first_failure_at: number | null;
  first_failure: OutOfMemory | null;
  /** The failure is no lack of memory: its pool is never the same again. */
  drifts: boolean;
  bound_by: 'allocated' | 'reserved' | null;
  replays: number;
}

export interface Advice {
  /** Keys of the request, dotted where a section has them: "allocator.expandable_segments". */
  changes: { key: string; value: Json }[];
  /** "fused attention" */
  name: string;
  /** The same with what it does. */
  title: string;
  cost: string;
  /** Two changes at once. */
  pair: boolean;
  /** What it does to the result: nothing, the same recipe rounded more, another recipe. */
  effect: 'same' | 'rounding' | 'other';
  /** Bytes of `reserved` at the peak, on a card without limit; negative if it takes more. */
  saves: number;
  saves_allocated: number;
  /** The changed request, at its own batch. */
  fits: boolean;
  largest_batch: number;
  /** Of the request's own time a token; null where the card's rates are not known. */
  time_percent: number | null;
}

export interface Advices {
  /** Peak of the request as it is, on a card without limit. */
  needs: Counters;
  fits: boolean;
  largest_batch: number;
  /** Changes, and pairs of two, most saving first. */
  advice: Advice[];
  /** Changes and pairs tried so far, and all of them. From a job only. */
  tried?: number;
  of?: number;
}

export interface ClosedLine {
  label: string;
  category: Category;
  formula: string;
  bytes: number;
}

export interface Explanation {
  general_account: {
    parameters: number;
    parameters_formula: string;
    lines: ClosedLine[];
    state: number;
    activations: number;
    total: number;
    notes: string[];
  };
  measured_calculator: {
    parameters: number;
    lines: ClosedLine[];
    allocated: number;
    reserved: number;
    batch_by_allocated: number;
    batch_by_reserved: number;
    notes: string[];
  };
  replay: Report;
}

export interface SweepCell extends Counters {
  batch: number;
  seq_len: number;
  fits: boolean;
  /** 0 if it fits or only did not settle. */
  failed_step: number;
}

/** Cells done so far, batch-major; arrays of one length. */
export interface SweepCells {
  count: number;
  batch: Float64Array;
  seq_len: Float64Array;
  allocated: Float64Array;
  reserved: Float64Array;
  failed_step: Float64Array;
  /** 1 or 0. */
  fits: Uint8Array;
}

/** One allocation or free of a step; counters are those after it. */
export interface TimelineRow extends Counters {
  event: number;
  alloc: boolean;
  bytes: number;
  phase: Phase;
  layer: number | null;
  op: string;
  label: string;
}

/** A stretch of rows [begin, end) of one phase. */
export interface Stretch {
  phase: Phase;
  begin: number;
  end: number;
}

/** One value per pixel column; a column shows the moment of its highest `allocated`, so no peak is lost. */
export interface Columns {
  /** Columns: the width asked for, or 0 when there is nothing to show. */
  width: number;
  /** By column: index of the row shown. */
  row: Uint32Array;
  /** There. */
  allocated: Float64Array;
  /** The highest in the column. */
  reserved: Float64Array;
  /** `categories[c * width + x]`, c as in Timeline.categories; they sum to `allocated`. */
  categories: Float64Array;
}

export interface PoolBlock {
  address: number;
  size: number;
  allocated: boolean;
  /** By the tensor in it; 0 in a free block. */
  requested: number;
  category: Category;
  /** Empty in a free block, as `op` is. */
  label: string;
  layer: number | null;
  op: string;
}

export interface PoolSegment {
  address: number;
  size: number;
  /** Of the pool for requests up to 1 MiB. */
  small: boolean;
  /** In address order; they cover the segment. */
  blocks: PoolBlock[];
}

/** What the caching allocator holds at one moment. `oom` if the moment is the run's end and it failed. */
export interface Pool extends Counters {
  at: Moment;
  oom: OutOfMemory | null;
  segments: PoolSegment[];
}

export interface DevicePreset {
  id: string;
  alias: string | null;
  vendor: string;
  name: string;
  total_mib: number;
  free_mib: number;
  compute_capability: string | null;
  sm_count: number | null;
  total_assumed: boolean;
  free_assumed: boolean;
  /** What a run may take on a machine without a fixed limit, bytes, ascending; empty on cards. */
  budgets: number[];
  /** Why `engine: torch` cannot use it, in words; empty if it can. */
  missing: string;
}

export interface ModelPreset {
  id: string;
  parameters: number;
  /** As a request's `model` object. */
  config: { [key: string]: Json };
}

export interface Presets {
  devices: DevicePreset[];
  models: ModelPreset[];
  /** Ids that the catalogue has and this version does not replay yet. */
  models_to_come: string[];
}

/** Why a request of a measured run could not be met. */
export interface RecordedFailure extends Counters {
  /** Index of the event. */
  event: number;
  /** What was asked for, and the segment that the allocator then asked the device for. */
  tensor: number;
  requested: number;
  /** On the device. */
  free: number;
  pool: 'small' | 'large';
  /** Free in that pool, largest first. */
  pieces: number[];
  bound_by: 'allocated' | 'reserved';
  message: string;
  /** The line of the script. */
  place: string;
}

/** What a measured snapshot is, of the first device with events. */
export interface RecordingSummary {
  device: number;
  /** Kept, and in the file. */
  events: number;
  events_in_file: number;
  allocations: number;
  peak: Counters & { event: number };
  end: Counters;
  /** Events at which cached segments were given back to make room. */
  retries: number[];
  failures: RecordedFailure[];
  /** Events that do not fit what was seen before them. */
  strange: number;
}

export interface RecordedBlock {
  address: number;
  size: number;
  state: 'allocated' | 'pending' | 'free';
}

export interface RecordedSegment {
  address: number;
  size: number;
  small: boolean;
  blocks: RecordedBlock[];
}

/** What is held right after an event. */
export interface RecordedMoment {
  at: number;
  action: string;
  size: number;
  place: string;
  counters: Counters & { active: number };
  /** By the line of the script that made them, the largest first. */
  holders: { place: string; bytes: number; tensors: number }[];
  segments: RecordedSegment[];
}

/** One value per pixel column, each its highest. */
export interface RecordedColumns {
  width: number;
  allocated: Float64Array;
  reserved: Float64Array;
  /** The prediction last compared with, at the same events; 0 without one. */
  predictedAllocated: Float64Array;
  predictedReserved: Float64Array;
  /** Of the highest `allocated`. */
  event: Uint32Array;
}

/** Tensors that differ for one reason. */
export interface Cause {
  kind: 'kept' | 'freed_early' | 'forward_pass' | 'optimizer_copy' | 'model_copy' | 'extra' | 'missing' | 'rounding' | 'other_process';
  title: string;
  advice: string;
  tensors: number;
  times: number;
  /** Bytes by which it moves the measured peak, and that it leaves alive at the end. */
  at_peak: number;
  at_end: number;
  /** The line of the script; may be empty. */
  place: string;
  stack: { name: string; filename: string; line: number }[];
}

/** A measured run laid over a prediction. */
export interface Comparison {
  steps: number;
  measured_allocations: number;
  predicted_allocations: number;
  matched: number;
  measured_peak: Counters;
  predicted_peak: Counters;
  difference: number;
  unexplained: number;
  freed_at_another_moment: number;
  causes: Cause[];
  request: Request;
  verdict: 'as predicted' | 'differs';
}
