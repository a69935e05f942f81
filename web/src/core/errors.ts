import type { Problem } from './types.js';

/**
 * Why there is no core:
 * - `no-webassembly`: the browser has it turned off (Lockdown Mode, enhanced security);
 * - `csp`: the page's Content-Security-Policy forbids it (script-src needs 'wasm-unsafe-eval');
 * - `fetch`: the module could not be fetched or read;
 * - `broken`: what was fetched is not our module;
 * - `trap`: the module failed inside (out of memory, say) and was thrown away. The next call gets a new one.
 */
export type Reason = 'no-webassembly' | 'csp' | 'fetch' | 'broken' | 'trap';

const words: Record<Reason, string> = {
  'no-webassembly': 'WebAssembly is turned off here (Lockdown Mode or an enhanced-security setting)',
  csp: "the site's Content-Security-Policy forbids WebAssembly: its script-src needs 'wasm-unsafe-eval'",
  fetch: 'the calculator could not be fetched',
  broken: 'what was fetched is not the calculator',
  trap: 'the calculator failed and was started again',
};

export class CoreError extends Error {
  override readonly name = 'CoreError';
  constructor(
    readonly reason: Reason,
    detail?: unknown,
  ) {
    const said = detail instanceof Error ? detail.message : detail === undefined ? '' : String(detail);
    super(said === '' ? words[reason] : `${words[reason]} (${said.slice(0, 300)})`, { cause: detail });
  }
}

/** A request was wrong; `problems` says every way in which. */
export class RequestError extends Error {
  override readonly name = 'RequestError';
  constructor(readonly problems: Problem[]) {
    super(problems.map((problem) => problem.line).join('\n'));
  }
}
