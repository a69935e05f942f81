// The tag as the pages write it: attributes, then what a reader without scripts gets.
import { escape } from './format.mjs';

export function whatFits(attributes, fallback) {
  const list = Object.entries(attributes)
    .filter(([, value]) => value !== undefined && value !== false)
    .map(([key, value]) => (value === true ? key : `${key}="${escape(value)}"`)).join(' ');
  return `<figure class="live"><what-fits ${list}>\n${fallback}\n</what-fits></figure>`;
}

/** Attributes as a link's keys. */
export const link = (attributes) =>
  `calculator.html#v=1&${Object.entries(attributes).map(([k, v]) => `${k}=${encodeURIComponent(v)}`).join('&')}`;
