// A PyTorch memory snapshot: fed in pieces, looked at, laid over a prediction. It has an instance of the module for itself: what
// a large file took is given back with it, and what goes wrong in it touches nobody else.
import { compile, type Source } from './compile.js';
import { CoreError, RequestError } from './errors.js';
import { Module, type Wasm } from './module.js';
import type { Comparison, Problem, RecordedColumns, RecordedMoment, RecordingSummary, Request } from './types.js';

export interface RecordingOptions {
  /** What reading may hold. */
  memoryMib?: number;
  /** Events kept, counted from 0; the others are counted only. */
  firstEvent?: number;
  lastEvent?: number;
}

/** A page may have 2 GiB; the reader's own count is rough. */
const MEMORY_MIB = 1024;
const TO_THE_END = -1;

export class Recording {
  readonly #module: Module;

  private constructor(module: Module) {
    this.#module = module;
  }

  /** @internal */
  static async make(source: Source, { memoryMib = MEMORY_MIB, firstEvent = 0, lastEvent = TO_THE_END }: RecordingOptions): Promise<Recording> {
    const module = await Module.make(await compile(source));
    module.call((wasm) => wasm.wf_snapshot_begin(memoryMib, firstEvent, lastEvent));
    return new Recording(module);
  }

  /** An instance that failed has lost what was read. */
  #call<T>(work: (module: Module) => T): T {
    this.#module.call(() => undefined);
    if (this.#module.generation !== 1) throw new CoreError('trap', 'the file has to be read again');
    return work(this.#module);
  }

  #answer<T>(work: (module: Module) => number): T {
    const ok = this.#call(work);
    const answer = this.#module.json<T>();
    if (ok !== 1) throw new RequestError((answer as { problems: Problem[] }).problems);
    return answer;
  }

  #ask<T>(work: (wasm: Wasm) => number): T {
    return this.#answer((module) => module.call(work));
  }

  /** The next bytes of the pickle. False once something is wrong; finish() says what. */
  feed(bytes: Uint8Array): boolean {
    return this.#call((module) => module.withBytes(bytes, (wasm, pointer, size) => wasm.wf_snapshot_feed(pointer, size))) === 1;
  }

  /** After the last bytes. Throws RequestError with what is wrong, and at which byte. */
  finish(): RecordingSummary {
    return this.#ask((wasm) => wasm.wf_snapshot_finish());
  }

  /** Right after an event. */
  at(event: number): RecordedMoment {
    return this.#ask((wasm) => wasm.wf_snapshot_at(event));
  }

  /** Events [begin, end) on `width` pixels. */
  columns(begin: number, end: number, width: number): RecordedColumns {
    this.#call((module) => module.call((wasm) => wasm.wf_snapshot_columns(begin, end, Math.max(0, Math.floor(width)))));
    const arrays = this.#module.arrays();
    const [allocated, reserved, predictedAllocated, predictedReserved] = [arrays.f64(), arrays.f64(), arrays.f64(), arrays.f64()];
    return { width: arrays.count, allocated, reserved, predictedAllocated, predictedReserved, event: arrays.u32() };
  }

  /** Lays it over the prediction of a request. Throws RequestError: the request is wrong, or the two have too little in common. */
  compare(request: Request | string): Comparison {
    const text = typeof request === 'string' ? request : JSON.stringify(request);
    return this.#answer((module) => module.withText(text, (wasm, pointer, length) => wasm.wf_snapshot_compare(pointer, length)));
  }
}

let shared: Promise<WebAssembly.Module> | undefined;

/**
 * A recording to be fed. The module is compiled once a page; the first call may say where it comes from (bytes, base64 text, an
 * address), without that it is `whatfits-snapshot.wasm` beside this file. Rejects with CoreError.
 */
export const openRecording = async (options: RecordingOptions = {}, source?: Source): Promise<Recording> => {
  shared ??= compile(source ?? new URL('./whatfits-snapshot.wasm', import.meta.url)).catch((error: unknown) => {
    shared = undefined;
    throw error;
  });
  return Recording.make(await shared, options);
};
