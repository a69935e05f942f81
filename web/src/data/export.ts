// The answer as files: text forms here, pictures in parts/picture.ts.
import { FIELDS, get } from './fields.js';
import { writeLink } from './link.js';
import type { Report, Request } from './types.js';
import type { Unit } from './units.js';

export function toJson(report: Report): string {
  return JSON.stringify(report, null, 2);
}

/** The ledger at the peak, bytes as integers; the rows sum to the peak's `allocated`. */
export function toCsv(report: Report): string {
  const head = ['category', 'label', 'layer', 'op', 'shape', 'dtype', 'count', 'bytes', 'formula'];
  const rows = report.ledger.map((row) => [
    row.category, row.label, row.layer ?? '', row.op, row.shape.join('x'), row.dtype, row.count, row.bytes, row.formula,
  ]);
  return [head, ...rows].map((row) => row.map(cell).join(',')).join('\r\n') + '\r\n';
}

/** Quoted where needed; a leading = + - @ would be a formula to a spreadsheet. */
function cell(value: string | number): string {
  if (typeof value === 'number') return String(value);
  const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe;
}

const escapeHtml = (text: string): string =>
  text.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;').replace(/"/g, '&quot;');

/** The tag for another page, with the state as attributes. */
export function embedCode(request: Request, unit: Unit, sentence: string, script: string): string {
  const attributes: string[] = [];
  for (const pair of writeLink({ request, unit }).slice(1).split('&')) {
    const [name, value = ''] = pair.split('=');
    if (name === 'v' || name === undefined) continue;
    const field = FIELDS.find((known) => known.name === name);
    if (field && get(request, field.path) === true) attributes.push(name);
    else attributes.push(`${name}="${escapeHtml(decodeURIComponent(value))}"`);
  }
  return `<script src="${escapeHtml(script)}" defer></script>\n<what-fits ${attributes.join(' ')} show="verdict bar mountain">\n  <p>${escapeHtml(sentence)}</p>\n</what-fits>\n`;
}
