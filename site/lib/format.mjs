// Numbers as the pages print them.
export const MiB = 2 ** 20;
export const GiB = 2 ** 30;
export const GB = 1e9;

export const int = (n) => Math.round(n).toLocaleString('en-US');
const fixed = (n, digits) => n.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits });
const sign = (text) => text.replace('-', '−');

/** Numbers alone; the unit stands in the text or the column's head. */
export const mib = (bytes, digits = 0) => sign(fixed(bytes / MiB, digits));
export const gib = (bytes, digits = 2) => sign(fixed(bytes / GiB, digits));
export const gb = (bytes, digits = 1) => sign(fixed(bytes / GB, digits));
export const percent = (part, digits = 0) => `${sign(fixed(100 * part, digits))} %`;
export const times = (ratio, digits = 1) => fixed(ratio, digits);

/** A printed figure of a source, with its own digits and a thousands separator. */
export function printed(figure) {
  const [whole, rest] = figure.digits_printed.split('.');
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, ',');
  return sign(rest === undefined ? grouped : `${grouped}.${rest}`);
}

export const escape = (text) =>
  String(text).replace(/[&<>"']/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' })[c]);

/** Joins arrays, drops null and false: for templates. */
export function html(strings, ...values) {
  return strings.reduce((out, text, i) => {
    if (i === 0) return text;
    const value = values[i - 1];
    const flat = Array.isArray(value) ? value.join('') : value === null || value === undefined || value === false ? '' : String(value);
    return out + flat + text;
  }, '');
}

export function table({ caption, head, rows, numeric = [], className = '', rowHead = true }) {
  const cell = (value, i) => {
    const name = numeric.includes(i) ? ' class="n"' : '';
    return rowHead && i === 0 ? `<th scope="row"${name}>${value}</th>` : `<td${name}>${value}</td>`;
  };
  return html`<div class="scroll" tabindex="0" role="region" aria-label="${escape(caption.replace(/<[^>]*>/g, ''))}"><table class="${className}">
<caption><span>${caption}</span></caption>
<thead><tr>${head.map((h, i) => `<th scope="col"${numeric.includes(i) ? ' class="n"' : ''}>${h}</th>`)}</tr></thead>
<tbody>
${rows.map((row) => `<tr${row.className ? ` class="${row.className}"` : ''}>${(row.cells ?? row).map(cell).join('')}</tr>\n`)}</tbody></table></div>`;
}
