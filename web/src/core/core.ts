// The core behind typed calls. One instance serves a whole page; a Run is one request that it holds open.
import { compile, type Source } from './compile.js';
import { CoreError, RequestError } from './errors.js';
import type { Job } from './jobs.js';
import { Module, type Wasm } from './module.js';
import { Timeline, type Head } from './timeline.js';
import type { Advices, Columns, Explanation, Fit, Ledger, Pool, Presets, Problem, Report, Request, Summary, SweepCells } from './types.js';

/** estimator/wasm/questions.h */
const QUESTION = { request: 0, estimate: 1, fitBatch: 2, fitSeqLen: 3, ledger: 4, advise: 5, explain: 6, presets: 7 } as const;
export type Question = keyof typeof QUESTION;

const AT_PEAK = -1;
const AT_END = Number.MAX_SAFE_INTEGER;

const textOf = (request: Request | string): string => (typeof request === 'string' ? request : JSON.stringify(request) ?? 'null');

export class Core {
  readonly #module: Module;
  #presets?: Presets;

  private constructor(module: Module) {
    this.#module = module;
  }

  /** Asked for when somebody looks: an answer about a run comes first. */
  get presets(): Presets {
    return (this.#presets ??= this.#ask<Presets>('presets', ''));
  }

  static async make(source: Source): Promise<Core> {
    return new Core(await Module.make(await compile(source)));
  }

  /** The answer as the module wrote it, problems included. */
  askText(question: Question, request: Request | string, event = AT_PEAK): { ok: boolean; text: string } {
    const ok = this.#module.withText(textOf(request), (wasm, text, length) => wasm.wf_ask(QUESTION[question], text, length, event) === 1);
    return { ok, text: this.#module.text() };
  }

  #ask<T>(question: Question, request: Request | string, event = AT_PEAK): T {
    const { ok, text } = this.askText(question, request, event);
    const answer = JSON.parse(text) as T;
    if (!ok) throw new RequestError((answer as { problems: Problem[] }).problems);
    return answer;
  }

  /** Every key written out, or what is wrong. */
  check(request: Request | string): { request: Request } | { problems: Problem[] } {
    return JSON.parse(this.askText('request', request).text) as { request: Request } | { problems: Problem[] };
  }

  // At once, for programs; all throw RequestError. A page that must not block opens a Run and takes its jobs.
  estimate = (request: Request | string): Report => this.#ask('estimate', request);
  fit = (request: Request | string, axis: 'batch' | 'seq-len' = 'batch'): Fit => this.#ask(axis === 'batch' ? 'fitBatch' : 'fitSeqLen', request);
  /** At the peak, or right after an event. */
  ledger = (request: Request | string, event = AT_PEAK): Ledger => this.#ask('ledger', request, event);
  advise = (request: Request | string): Advices => this.#ask('advise', request);
  explain = (request: Request | string): Explanation => this.#ask('explain', request);

  /** A run, or what is wrong with the request. */
  open(request: Request | string): Run | Problem[] {
    const opened = openRun(this.#module, textOf(request));
    return Array.isArray(opened) ? opened : new Run(this.#module, opened.handle, opened.request);
  }
}

const openRun = (module: Module, text: string): { handle: number; request: Request } | Problem[] => {
  const handle = module.withText(text, (wasm, pointer, length) => wasm.wf_open(pointer, length) >>> 0);
  const answer = module.json<{ request: Request } | { problems: Problem[] }>();
  return 'problems' in answer ? answer.problems : { handle, request: answer.request };
};

/** A request whose program is recorded and kept: moving a cursor records nothing. Close it when it is no longer shown. */
export class Run {
  /** Every key written out. */
  readonly request: Request;
  readonly #module: Module;
  #handle: number;
  #generation: number;
  #timelineStep: number | undefined;

  /** @internal */
  constructor(module: Module, handle: number, request: Request) {
    this.#module = module;
    this.#handle = handle;
    this.#generation = module.generation;
    this.request = request;
  }

  /** Runs `work` with a handle that is good: after a trap the request is opened again in the new instance. */
  #call<T>(work: (wasm: Wasm, handle: number) => T): T {
    if (this.#handle === 0) throw new Error('this run is closed');
    this.#module.call(() => undefined);
    if (this.#generation !== this.#module.generation) {
      const opened = openRun(this.#module, JSON.stringify(this.request));
      if (Array.isArray(opened)) throw new RequestError(opened);
      this.#handle = opened.handle;
      this.#generation = this.#module.generation;
      this.#timelineStep = undefined;
    }
    return this.#module.call((wasm) => work(wasm, this.#handle));
  }

  #answer<T>(work: (wasm: Wasm, handle: number) => number): T {
    const ok = this.#call(work);
    const answer = this.#module.json<T>();
    if (ok !== 1) throw new RequestError((answer as { problems: Problem[] }).problems);
    return answer;
  }

  report(): Report {
    return this.#answer((wasm, handle) => wasm.wf_report(handle));
  }

  /** report() without its hashes and ledger, in a third of the time. */
  summary(): Summary {
    return this.#answer((wasm, handle) => wasm.wf_summary(handle));
  }

  /** What is alive right after an event; without one, at the peak. */
  ledger(event = AT_PEAK): Ledger {
    return this.#answer((wasm, handle) => wasm.wf_ledger(handle, event));
  }

  /** What the allocator holds right after an event; without one, at the run's end: if it failed, when it had. */
  pool(event = AT_END): Pool {
    return this.#answer((wasm, handle) => wasm.wf_pool(handle, event));
  }

  /** Step 0 is the setup, -1 the last; a run that fails earlier is shown where it fails. */
  timeline(step = -1): Timeline {
    const head = this.#pick(step);
    return new Timeline(head, this.#module.arrays(), (begin, end, width) => this.#columns(head, begin, end, width));
  }

  #pick(step: number): Head {
    const head = this.#answer<Head>((wasm, handle) => wasm.wf_timeline(handle, step));
    this.#timelineStep = head.step;
    return head;
  }

  #columns(head: Head, begin: number, end: number, width: number): Columns {
    const columns = () => this.#call((wasm, handle) => (this.#timelineStep === head.step ? wasm.wf_columns(handle, begin, end, Math.max(0, Math.floor(width))) : 0));
    if (columns() !== 1) {
      this.#pick(head.step);
      columns();
    }
    const arrays = this.#module.arrays();
    const allocated = arrays.f64();
    const reserved = arrays.f64();
    const categories = arrays.f64(head.categories.length);
    return { width: arrays.count, row: arrays.u32(), allocated, reserved, categories };
  }

  /** The largest batch (or length): some 20 replays. */
  fit(axis: 'batch' | 'seq-len' = 'batch'): Job<Fit> & { largest(): number } {
    this.#call((wasm, handle) => wasm.wf_fit_begin(handle, axis === 'batch' ? 0 : 1));
    const job = this.#job<Fit>((wasm, handle) => wasm.wf_fit_step(handle), () => this.#answer((wasm, handle) => wasm.wf_fit_result(handle)));
    return { ...job, largest: () => this.#call((wasm, handle) => wasm.wf_fit_largest(handle)) };
  }

  /** What to change; a change is known after some 20 replays. result() has those known so far. */
  advise(): Job<Advices> {
    this.#call((wasm, handle) => wasm.wf_advise_begin(handle));
    return this.#job<Advices>(
      (wasm, handle) => wasm.wf_advise_step(handle),
      () => this.#answer((wasm, handle) => wasm.wf_advise_result(handle)),
    );
  }

  /** Every batch with every length, a cell a step. Throws RequestError when a cell would be out of bounds. */
  sweep(batches: readonly number[], seqLens: readonly number[]): Job<SweepCells> {
    const ok = this.#call((_, handle) =>
      this.#module.withNumbers([...batches, ...seqLens], (wasm, values) => wasm.wf_sweep_begin(handle, values, batches.length, seqLens.length)),
    );
    if (ok !== 1) throw new RequestError(this.#module.json<{ problems: Problem[] }>().problems);
    return this.#job<SweepCells>((wasm, handle) => wasm.wf_sweep_step(handle), () => {
      this.#call((wasm, handle) => wasm.wf_sweep_cells(handle));
      const arrays = this.#module.arrays();
      const [batch, seq_len, allocated, reserved, failed_step] = [arrays.f64(), arrays.f64(), arrays.f64(), arrays.f64(), arrays.f64()];
      return { count: arrays.count, batch, seq_len, allocated, reserved, failed_step, fits: arrays.u8() };
    });
  }

  /** Of what has begun. A job whose instance trapped says so at its next step, and is not taken up again. */
  #job<T>(step: (wasm: Wasm, handle: number) => number, result: () => T): Job<T> {
    const generation = this.#generation;
    const own = () => {
      this.#module.call(() => undefined);
      if (this.#module.generation !== generation) throw new CoreError('trap', 'the question has to be asked again');
    };
    return {
      step: () => {
        own();
        return this.#call(step) === 1;
      },
      result: () => {
        own();
        return result();
      },
    };
  }

  close(): void {
    if (this.#handle !== 0 && this.#generation === this.#module.generation) this.#module.call((wasm) => wasm.wf_close(this.#handle));
    this.#handle = 0;
  }
}
