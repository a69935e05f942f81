// The element as programs see it. Written by hand: it names no library that is bundled.
import type { Report, Request } from './core/types.js';

export type { Report, Request } from './core/types.js';

export interface WhatFitsDetail {
  value: Request;
  report: Report;
}

export declare class WhatFits extends HTMLElement {
  /** The request, every key written out; setting it asks anew. */
  value: Request;
  /** The same. */
  request: Request;
  /** The last answer. */
  readonly report: Report | undefined;
  /** The state as a link's fragment, "#v=1&model=…". */
  readonly fragment: string;
  /** Parts, by space or comma. */
  show: string | null;
  /** Controls that are offered, by key. */
  controls: string | null;
  unit: 'GiB' | 'MiB' | 'GB';
  /** Address of a full page, for links that are copied. */
  home: string | null;
  standalone: boolean;
}

/** What a link's fragment says, and what of it was not understood; undefined if it is none of ours. Never throws. */
export declare function readLink(fragment: string): { state: { request: Request; unit?: 'GiB' | 'MiB' | 'GB'; event?: number }; notes: string[] } | undefined;
export declare function writeLink(state: { request: Request; unit?: 'GiB' | 'MiB' | 'GB'; event?: number }): string;

declare global {
  interface HTMLElementTagNameMap {
    'what-fits': WhatFits;
  }
  interface HTMLElementEventMap {
    'wf-change': CustomEvent<WhatFitsDetail>;
    'wf-report': CustomEvent<WhatFitsDetail>;
    'wf-error': CustomEvent<{ code: string; message: string }>;
  }
}
