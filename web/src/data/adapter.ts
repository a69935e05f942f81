// The loader's core as the element's engine; the page's one. The build puts the WebAssembly module in, packed and
// as base64 text: neither fetch nor worker, so that it runs on file://, in sandboxed frames and across origins.
import { CoreError } from '../core/errors.js';
import { loadCore, type Core, type Run as CoreRun } from '../core/index.js';
import wasm from 'whatfits.wasm';
import type { Engine, Run } from './engine.js';
import type { Timeline } from './types.js';

function timelineOf(run: CoreRun, step: number): Timeline {
  const inner = run.timeline(step);
  return {
    step: inner.step,
    count: inner.count,
    peak: inner.peak,
    oom: inner.oom,
    phases: inner.stretches.map(({ phase, begin, end }) => ({ name: phase, begin, end })),
    row: (index) => inner.row(index),
    rowOf: (event) => Math.max(0, Math.min(inner.count - 1, event - (inner.event[0] ?? 0))),
    columns: (begin, end, width) => inner.columns(begin, end, width),
  };
}

function adapt(run: CoreRun): Run {
  return {
    request: run.request,
    report: () => run.report(),
    summary: () => run.summary(),
    timeline: (step = -1) => timelineOf(run, step),
    ledger: (event) => run.ledger(event),
    pool: (event) => run.pool(event),
    fit: () => {
      const job = run.fit('batch');
      return {
        step: () => job.step(),
        result: () => {
          const { largest_batch: largest = 0, capped, first_failure_at, first_failure, bound_by } = job.result();
          return { largest, capped, first_failure_at, first_failure, bound_by };
        },
      };
    },
    advise: () => {
      const job = run.advise();
      return {
        step: () => job.step(),
        result: () => {
          const result = job.result();
          return { ...result, done: result.tried === undefined || result.tried === result.of };
        },
      };
    },
    sweep: (batches, seqLens) => run.sweep(batches, seqLens),
    close: () => run.close(),
  };
}

function engineOf(core: Core): Engine {
  return {
    get devices() {
      return core.presets.devices;
    },
    get models() {
      return core.presets.models;
    },
    get modelsToCome() {
      return core.presets.models_to_come;
    },
    open: (request) => {
      const run = core.open(request);
      return Array.isArray(run) ? run : adapt(run);
    },
  };
}

/** Also across two copies of the script on one page: the first to come keeps it under a name of the document. */
const KEY = Symbol.for('what-fits.engine');
type Keeper = typeof globalThis & { [KEY]?: Promise<Engine> };

export function sharedEngine(): Promise<Engine> {
  const keeper = globalThis as Keeper;
  keeper[KEY] ??= loadCore(wasm)
    .then(engineOf)
    .catch((error: unknown) => {
      delete keeper[KEY];
      throw error;
    });
  return keeper[KEY];
}

/** Nobody on the page has asked for it yet. */
export const engineIsIdle = (): boolean => (globalThis as Keeper)[KEY] === undefined;

/** Why there is nothing to see, in a sentence for the reader. */
export function explainFailure(error: unknown): { code: string; message: string } {
  if (error instanceof CoreError) {
    const message = `${error.message.charAt(0).toUpperCase()}${error.message.slice(1)}`;
    return { code: error.reason, message: `The calculator cannot run here. ${message}.` };
  }
  const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  return { code: 'broken', message: `The calculator could not start (${text.slice(0, 200)}).` };
}
