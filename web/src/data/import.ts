// A Hugging Face config.json, or a request of ours, from a stranger: looked at as data before the core sees it.
import type { Engine } from './engine.js';
import { isObject } from './fields.js';
import { clip } from './link.js';
import { positionsOf } from './session.js';
import type { Json, Problem, Request } from './types.js';

/** A config.json is a few kilobytes. */
export const IMPORT_BYTES = 1 << 20;
const NESTING = 32;
const DIGITS = 20;

export type Imported = { request: Request; said: string[] } | { refused: string[] };

/** What kind of trouble a text would be, before it is parsed; nothing if none. */
export function suspicious(text: string): string | undefined {
  if (text.length > IMPORT_BYTES) return `The text is ${(text.length / 1e6).toFixed(1)} MB long; a config.json has a few kilobytes, and at most 1 MiB is read.`;
  let depth = 0;
  let inString = false;
  let digits = 0;
  for (let i = 0; i < text.length; i += 1) {
    const c = text[i]!;
    if (inString) {
      if (c === '\\') i += 1;
      else if (c === '"') inString = false;
      continue;
    }
    if (c >= '0' && c <= '9') {
      digits += 1;
      if (digits > DIGITS) return `It has a number of more than ${DIGITS} digits; no dimension is that large.`;
      continue;
    }
    digits = 0;
    if (c === '"') inString = true;
    else if (c === '{' || c === '[') {
      depth += 1;
      if (depth > NESTING) return `It is nested deeper than ${NESTING} levels; a config.json is not.`;
    } else if (c === '}' || c === ']') depth -= 1;
  }
  return undefined;
}

/** Reads a text as a config or request, laid over `now`. The core has the last word on every value. */
export function importText(text: string, now: Request, engine: Engine): Imported {
  const trouble = suspicious(text);
  if (trouble) return { refused: [trouble] };
  let parsed: Json;
  try {
    parsed = JSON.parse(text) as Json;
  } catch (error) {
    const why = error instanceof Error ? clip(error.message, 120) : '';
    return { refused: [`This is not JSON${why ? `: ${why}` : ''}.`] };
  }
  if (!isObject(parsed)) return { refused: ['A config.json is one object in braces; this is not.'] };
  // What export writes can be read again: a report has the request inside, a request has a model.
  if (isObject(parsed.request) && 'model' in parsed.request) return checked({ ...parsed.request }, ['A request was read.'], engine);
  if ('extra_mib' in parsed && 'measurements' in parsed) return checked({ ...now, calibration: parsed }, ['A calibration of the card was read.'], engine);
  if ('model' in parsed && !('model_type' in parsed)) return checked({ ...parsed }, ['A request was read.'], engine);
  return importConfig(parsed, now, engine);
}

function importConfig(config: { [key: string]: Json }, now: Request, engine: Engine): Imported {
  const type = config.model_type;
  if (typeof type !== 'string') {
    return { refused: ['There is no "model_type" in it, so nobody can tell which model’s code is meant. A config.json of Hugging Face has one.'] };
  }
  const unknown = problemsOf({ ...now, model: config }, engine).find((problem) => problem.key === 'model.model_type');
  if (unknown) {
    const near = engine.modelsToCome.filter((id) => id.toLowerCase().startsWith(type.toLowerCase().split(/[-_\d.]/)[0] || type));
    return {
      refused: [
        `The model type “${clip(type)}” is not replayed: ${clip(unknown.message, 300)}.`,
        ...(near.length > 0 ? [`To come: ${near.slice(0, 6).join(', ')}.`] : []),
      ],
    };
  }
  const positions = positionsOf(config);
  const length = typeof now.seq_len === 'number' ? now.seq_len : undefined;
  const said: string[] = [];
  const request: Request = { ...now, model: config };
  if (positions !== undefined && length !== undefined && length > positions) {
    request.seq_len = positions;
    said.push(`The length was set to ${positions}, the longest this model takes.`);
  }
  const result = checked(request, said, engine);
  if ('refused' in result) return result;
  // The core writes out what counts; the rest of the file's keys change no tensor.
  const counts = modelKeys(result.request, engine);
  const used = Object.keys(config).filter((key) => counts.has(key));
  const rest = Object.keys(config).filter((key) => !counts.has(key));
  said.unshift(`Read: ${used.join(', ')}.`);
  if (rest.length > 0) said.push(`Of no weight for memory: ${clip(rest.join(', '), 200)}.`);
  return result;
}

/** A config that is a preset's comes back as its name. */
function modelKeys(request: Request, engine: Engine): Set<string> {
  const { model } = request;
  const config = isObject(model) ? model : engine.models.find((preset) => preset.id === model)?.config;
  return new Set(Object.keys(config ?? {}));
}

function problemsOf(request: Request, engine: Engine): Problem[] {
  const run = engine.open(request);
  if (Array.isArray(run)) return run;
  run.close();
  return [];
}

function checked(request: Request, said: string[], engine: Engine): Imported {
  const run = engine.open(request);
  if (Array.isArray(run)) {
    return { refused: run.map((problem) => `${problem.key}: ${problem.value ? `${clip(problem.value)} ` : ''}${clip(problem.message, 300)}`) };
  }
  // The core's own writing of it: only keys that count, only values that hold.
  const full = run.request;
  run.close();
  return { request: full, said };
}
