// One instance of the WebAssembly module: text in, text and arrays out. Everything is copied out at once, since the next call
// may move or grow the memory; an instance that trapped is thrown away and the next call gets a new one.
import { CoreError } from './errors.js';

/** estimator/wasm/exports.cpp, answers.cpp and, from wf_snapshot_begin on, snapshot_exports.cpp of the second module. */
interface Exports {
  memory: WebAssembly.Memory;
  _initialize?(): void;
  wf_abi(): number;
  wf_alloc(bytes: number): number;
  wf_free(pointer: number): void;
  wf_text(): number;
  wf_text_length(): number;
  wf_data(): number;
  wf_count(): number;
  wf_ask(question: number, text: number, length: number, event: number): number;
  wf_open(text: number, length: number): number;
  wf_close(handle: number): void;
  wf_report(handle: number): number;
  wf_summary(handle: number): number;
  wf_ledger(handle: number, event: number): number;
  wf_pool(handle: number, event: number): number;
  wf_timeline(handle: number, step: number): number;
  wf_columns(handle: number, begin: number, end: number, width: number): number;
  wf_fit_begin(handle: number, seqLen: number): number;
  wf_fit_step(handle: number): number;
  wf_fit_result(handle: number): number;
  wf_fit_largest(handle: number): number;
  wf_advise_begin(handle: number): number;
  wf_advise_step(handle: number): number;
  wf_advise_result(handle: number): number;
  wf_sweep_begin(handle: number, values: number, batches: number, seqLens: number): number;
  wf_sweep_step(handle: number): number;
  wf_sweep_cells(handle: number): number;
  wf_snapshot_begin(memoryMib: number, first: number, last: number): void;
  wf_snapshot_feed(bytes: number, size: number): number;
  wf_snapshot_finish(): number;
  wf_snapshot_at(event: number): number;
  wf_snapshot_columns(begin: number, end: number, width: number): number;
  wf_snapshot_compare(request: number, length: number): number;
}

export type Wasm = Omit<Exports, 'memory' | '_initialize'>;

const ABI = 1;
const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** The next array of an answer, where the last one ended. */
export class Reader {
  #offset: number;
  constructor(
    readonly buffer: ArrayBuffer,
    offset: number,
    readonly count: number,
  ) {
    this.#offset = offset;
  }
  #take(bytes: number): ArrayBuffer {
    const from = this.#offset;
    this.#offset += bytes;
    return this.buffer.slice(from, this.#offset);
  }
  f64 = (times = 1): Float64Array => new Float64Array(this.#take(8 * this.count * times));
  u32 = (): Uint32Array => new Uint32Array(this.#take(4 * this.count));
  i16 = (): Int16Array => new Int16Array(this.#take(2 * this.count));
  u8 = (): Uint8Array => new Uint8Array(this.#take(this.count));
}

export class Module {
  /** Counts instances: a handle is good for one of them only. */
  generation = 0;
  #exports: Exports | undefined;

  private constructor(
    readonly compiled: WebAssembly.Module,
    instance: WebAssembly.Instance,
  ) {
    this.#adopt(instance);
  }

  static async make(compiled: WebAssembly.Module): Promise<Module> {
    try {
      return new Module(compiled, await WebAssembly.instantiate(compiled, imports()));
    } catch (error) {
      throw error instanceof CoreError ? error : new CoreError('broken', error);
    }
  }

  #adopt(instance: WebAssembly.Instance): void {
    const exports = instance.exports as unknown as Exports;
    exports._initialize?.();
    if (exports.wf_abi?.() !== ABI) throw new CoreError('broken', 'another version of it');
    this.#exports = exports;
    ++this.generation;
  }

  /** Runs `work`; what it throws ends the instance, since nobody knows in which state it is. */
  call<T>(work: (wasm: Exports) => T): T {
    if (!this.#exports) {
      try {
        this.#adopt(new WebAssembly.Instance(this.compiled, imports()));
      } catch (error) {
        throw new CoreError('trap', error);
      }
    }
    try {
      return work(this.#exports!);
    } catch (error) {
      if (error instanceof CoreError) throw error;
      this.#exports = undefined;
      // Some browsers instantiate at once only off the main thread or only small modules: have one ready for the next call.
      WebAssembly.instantiate(this.compiled, imports()).then(
        (instance) => this.#exports ?? this.#adopt(instance),
        () => {},
      );
      throw new CoreError('trap', error);
    }
  }

  /** `work` with the text in the module's memory. */
  withText<T>(text: string, work: (wasm: Exports, pointer: number, length: number) => T): T {
    return this.withBytes(encoder.encode(text), work);
  }

  withNumbers<T>(numbers: readonly number[], work: (wasm: Exports, pointer: number) => T): T {
    return this.withBytes(new Uint8Array(Float64Array.from(numbers).buffer), work);
  }

  withBytes<T>(bytes: Uint8Array, work: (wasm: Exports, pointer: number, length: number) => T): T {
    return this.call((wasm) => {
      const pointer = wasm.wf_alloc(bytes.length) >>> 0;
      if (pointer === 0) throw new Error('out of memory');
      new Uint8Array(wasm.memory.buffer, pointer, bytes.length).set(bytes);
      const result = work(wasm, pointer, bytes.length);
      wasm.wf_free(pointer);
      return result;
    });
  }

  /** The last answer. Call right after the function that made it. */
  text(): string {
    return this.call((wasm) => decoder.decode(new Uint8Array(wasm.memory.buffer, wasm.wf_text() >>> 0, wasm.wf_text_length() >>> 0)));
  }

  json<T>(): T {
    return JSON.parse(this.text()) as T;
  }

  arrays(): Reader {
    return this.call((wasm) => new Reader(wasm.memory.buffer as ArrayBuffer, wasm.wf_data() >>> 0, wasm.wf_count() >>> 0));
  }
}

/** What Emscripten's library may call: the end of the program, and words to stderr before it. */
const imports = (): WebAssembly.Imports => ({
  env: { emscripten_notify_memory_growth: () => {} },
  wasi_snapshot_preview1: {
    proc_exit: (code: number) => {
      throw new Error(`exit ${code}`);
    },
    fd_close: () => 0,
    fd_seek: () => 70,
    fd_write: () => 70,
  },
});
