// A state as a link's fragment: #v=1&model=gpt2-from-scratch&batch=8. Fragments never reach a server. Equal states give equal
// links: the order is that of the fields, defaults are left out.
import { equal, FIELDS, fieldOf, get, isObject, put, type Field } from './fields.js';
import type { Json, Request } from './types.js';
import { UNITS, type Unit } from './units.js';

export const LINK_VERSION = 1;
/** A link longer than this is not ours. */
export const LINK_LIMIT = 2000;

export interface LinkState {
  request: Request;
  unit?: Unit;
  /** From the start of the run; absent: at the peak. */
  event?: number | undefined;
}

export interface ReadLink {
  state: LinkState;
  /** What was not understood, each in words. */
  notes: string[];
}

/** A text of an attribute or link as a value of the request. Wrong ones stay text, so that the core can name them. */
export function valueOf(field: Field, text: string): Json {
  switch (field.kind) {
    case 'whole':
      return /^\s*-?\d{1,15}\s*$/.test(text) ? Number(text) : text;
    case 'switch':
      // As an attribute alone, <what-fits clip-grad-norm>, it means yes.
      if (text === '' || text === 'true') return true;
      return text === 'false' ? false : text;
    case 'json':
      return parseJson(text) ?? (text.trim() === 'null' ? null : text);
    case 'word':
      return text;
    case 'text': {
      const object = text.trimStart().startsWith('{') ? parseJson(text) : undefined;
      return object ?? text;
    }
  }
}

function parseJson(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
}

/** Values of the sections' keys that a request has without saying so. */
const USUAL: Record<string, { [key: string]: Json }> = {
  allocator: { expandable_segments: false, roundup_power2_divisions: 0, garbage_collection_threshold: 0 },
  script: { warmup_matmul: 8, outputs: 'keep', attention_mask: 'none', zero_grad_at: 'end', loss: 'model', data: 'each-step' },
};

/** Texts of one field for a link: itself, or its parts. */
function entries(field: Field, request: Request): [string, string][] {
  const value = get(request, field.path);
  if (value === undefined || (field.fallback !== undefined && equal(value, field.fallback))) return [];
  if (isObject(value)) {
    // Parts that have fields of their own say themselves; what else is not as usual travels as JSON.
    if (field.kind !== 'json' && field.name !== 'model') return [];
    const named = new Set(FIELDS.filter((other) => other.path.length > 1 && other.path[0] === field.path[0]).map((other) => other.path[1]));
    const unusual = Object.entries(value).filter(([key, inner]) => inner !== null && !equal(inner, USUAL[field.name]?.[key]));
    // The model's dimensions follow it in a link, and are laid over what stands here.
    const own = field.name === 'model' ? unusual.filter(([key]) => !named.has(key)) : unusual;
    return unusual.every(([key]) => named.has(key)) ? [] : [[field.name, JSON.stringify(Object.fromEntries(own))]];
  }
  if (value === null) return field.path.length > 1 ? [] : [[field.name, 'null']];
  return [[field.name, typeof value === 'string' ? value : JSON.stringify(value)]];
}

export function writeLink(state: LinkState): string {
  const pairs: [string, string][] = [['v', String(LINK_VERSION)]];
  for (const field of FIELDS) pairs.push(...entries(field, state.request));
  if (state.unit && state.unit !== 'GiB') pairs.push(['unit', state.unit]);
  if (state.event !== undefined) pairs.push(['event', String(state.event)]);
  return `#${pairs.map(([key, value]) => `${key}=${encodeURIComponent(value)}`).join('&')}`;
}

/** Never throws, whatever the text. */
export function readLink(fragment: string): ReadLink | undefined {
  const text = fragment.replace(/^#/, '');
  if (text === '' || !/(^|&)v=/.test(text)) return undefined;
  const notes: string[] = [];
  let request: Request = {};
  const state: LinkState = { request };
  if (text.length > LINK_LIMIT) {
    return { state, notes: [`The link is ${text.length} characters long; at most ${LINK_LIMIT} are read. It was left aside.`] };
  }
  const seen = new Set<string>();
  for (const pair of text.split('&')) {
    const at = pair.indexOf('=');
    const name = decode(at < 0 ? pair : pair.slice(0, at));
    const value = decode(at < 0 ? '' : pair.slice(at + 1).replace(/\+/g, ' '));
    if (name === undefined || value === undefined) {
      notes.push(`A part of the link is not well encoded: ${clip(pair)}`);
      continue;
    }
    if (name === '' && value === '') continue;
    if (seen.has(name)) {
      notes.push(`The link says ${clip(name)} twice; the first counts.`);
      continue;
    }
    seen.add(name);
    const field = fieldOf(name);
    if (name === 'v') {
      if (value !== String(LINK_VERSION)) notes.push(`The link was made by version ${clip(value)}; this page reads version ${LINK_VERSION}.`);
    } else if (name === 'unit') {
      const unit = UNITS.find((known) => known === value);
      if (unit) state.unit = unit;
      else notes.push(`unit: ${clip(value)} is none of ${UNITS.join(', ')}.`);
    } else if (name === 'event') {
      if (/^\d{1,9}$/.test(value)) state.event = Number(value);
      else notes.push(`event: ${clip(value)} is no event's number.`);
    } else if (field) {
      request = put(request, field.path, valueOf(field, value));
    } else {
      notes.push(`The link has a key that this version does not know: ${clip(name)}`);
    }
  }
  state.request = request;
  return { state, notes };
}

function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

/** For a message: one short line of text, whatever was given. */
export function clip(text: string, length = 60): string {
  // eslint-disable-next-line no-control-regex
  const plain = text.replace(/[\u0000-\u001f\u007f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g, ' ');
  return plain.length > length ? `${plain.slice(0, length)}…` : plain;
}
