// What programs import as `what-fits/core`.
import type { Source } from './compile.js';
import { Core } from './core.js';

export type { Source } from './compile.js';
export { Core, Run, type Question } from './core.js';
export { CoreError, RequestError, type Reason } from './errors.js';
export { runJob, type Job, type SliceOptions } from './jobs.js';
export { Timeline } from './timeline.js';
export type * from './types.js';

let shared: Promise<Core> | undefined;

/**
 * The page's one core. The first call says where the module comes from (bytes, base64 text, an address); without that it is
 * `whatfits.wasm` beside this file. After a failure the next call tries again. Rejects with CoreError.
 */
export const loadCore = (source?: Source): Promise<Core> => {
  shared ??= Core.make(source ?? new URL('./whatfits.wasm', import.meta.url)).catch((error: unknown) => {
    shared = undefined;
    throw error;
  });
  return shared;
};
