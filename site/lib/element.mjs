// The tag as the pages write it: attributes, then what a reader without scripts gets.
import { escape } from './format.mjs';

export function whatFits(attributes, fallback) {
  // Controls that are named are also shown.
  const show = attributes.controls ? `${attributes.show},controls` : attributes.show;
  const list = Object.entries({ ...attributes, show })
    .filter(([, value]) => value !== undefined && value !== false)
    .map(([key, value]) => (value === true ? key : `${key}="${escape(value)}"`)).join(' ');
  return `<figure class="live"><what-fits ${list}>\n${fallback}\n</what-fits></figure>`;
}

/** Attributes as a link's keys. */
export const link = (attributes) =>
  `calculator.html#v=1&${Object.entries(attributes).map(([k, v]) => `${k}=${encodeURIComponent(v)}`).join('&')}`;
