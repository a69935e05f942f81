// Pictures drawn when the site is built: they carry the story where no script runs. Geometry is stretched, text is not.
import { GiB, gib, int } from './format.mjs';

export const groups = [
  { id: 'model', name: 'model and optimizer', color: '#0072B2', of: ['parameters', 'gradients', 'optimizer_state', 'buffers', 'workspaces'] },
  { id: 'activations', name: 'layer activations', color: '#E69F00', of: ['activations'] },
  { id: 'attention', name: 'attention, T²', color: '#009E73', of: ['attention'] },
  { id: 'logits', name: 'vocabulary-sized', color: '#D55E00', of: ['logits'] },
  { id: 'other', name: 'temporaries and rounding', color: '#CC79A7', of: ['temporaries', 'inputs', 'rounding'] },
];

const round = (n) => Math.round(n * 10) / 10;
const grouped = (names, values) => groups.map((g) => g.of.reduce((sum, c) => sum + values[names.indexOf(c)], 0));

/** The step in `width` columns; each column shows its highest event. */
export function columns(timeline, width) {
  const { events, categories } = timeline;
  return Array.from({ length: width }, (_, x) => {
    const from = Math.floor((x * events.length) / width);
    const to = Math.max(from + 1, Math.floor(((x + 1) * events.length) / width));
    let top = events[from];
    for (let i = from + 1; i < to; ++i) if (events[i].allocated > top.allocated) top = events[i];
    return { event: top.event, allocated: top.allocated, reserved: top.reserved, parts: grouped(categories, top.categories) };
  });
}

/** Stacked silhouettes, one path a group, bottom to top. */
function stack(cols, top, width, height) {
  const y = (bytes) => round(height * (1 - bytes / top));
  const x = (i) => round((i * width) / cols.length);
  const base = cols.map(() => 0);
  return groups.map((group, g) => {
    const lower = base.slice();
    cols.forEach((col, i) => { base[i] += col.parts[g]; });
    let path = `M0 ${y(base[0])}`;
    for (let i = 0; i < cols.length; ++i) path += `V${y(base[i])}H${x(i + 1)}`;
    path += `V${y(lower[cols.length - 1])}`;
    for (let i = cols.length - 1; i >= 0; --i) path += `V${y(lower[i])}H${x(i)}`;
    return `<path class="g-${group.id}" fill="${group.color}" d="${path}Z"/>`;
  }).join('');
}

const plot = (inner, { height, label, viewHeight = height, text = '', className = '' }) =>
  `<svg class="plot ${className}" width="100%" height="${height}" role="img" aria-label="${label}">` +
  `<svg width="100%" height="100%" viewBox="0 0 1000 ${viewHeight}" preserveAspectRatio="none" aria-hidden="true">${inner}</svg>${text}</svg>`;

const scale = (top, step, unit = 'GiB') => {
  let text = '';
  for (let v = step; v * GiB < top; v += step) {
    const y = round(100 * (1 - (v * GiB) / top));
    text += `<line class="grid" x1="0" x2="100%" y1="${y}%" y2="${y}%"/><text class="tick" x="0" y="${y}%" dy="-4">${v} ${unit}</text>`;
  }
  return text;
};

/** One step as a mountain. `bare` leaves out every number: the picture that asks. */
export function mountain(timeline, { height = 320, bare = false, label }) {
  const cols = columns(timeline, 500);
  const peak = Math.max(...cols.map((c) => c.allocated));
  const top = peak * 1.14;
  const at = cols.findIndex((c) => c.allocated === peak);
  const events = timeline.events;
  const marks = ['forward', 'backward', 'optimizer_step', 'zero_grad'].map((phase) => {
    const first = events.findIndex((e) => e.phase === phase);
    return { phase, x: round((100 * first) / events.length) };
  }).filter((m) => m.x >= 0);
  const names = { forward: 'forward', backward: 'backward', optimizer_step: 'optimizer', zero_grad: '' };
  let text = bare ? '' : scale(top, 4);
  text += marks.filter((m) => names[m.phase]).map((m) =>
    `<line class="phase" x1="${m.x}%" x2="${m.x}%" y1="0" y2="100%"/><text class="phase-name" x="${m.x}%" y="100%" dx="5" dy="-6">${names[m.phase]}</text>`).join('');
  if (!bare) {
    const x = round((100 * (at + 0.5)) / cols.length);
    const y = round(100 * (1 - peak / top));
    text += `<circle class="peak" cx="${x}%" cy="${y}%" r="4"/><text class="peak-name" x="${x}%" y="${y}%" dx="9" dy="0">peak ${gib(peak)} GiB</text>`;
  }
  return plot(stack(cols, top, 1000, height), { height, text, label, className: bare ? 'bare' : '' });
}

/** What hooks between blocks read, over what happened. */
export function hooks(timeline, readings, { height = 340, label }) {
  const cols = columns(timeline, 500);
  const peak = Math.max(...cols.map((c) => c.allocated));
  const top = peak * 1.12;
  const n = timeline.events.length;
  const first = timeline.events[0].event;
  let line = `M0 ${height}`;
  cols.forEach((c, i) => { line += `V${round(height * (1 - c.allocated / top))}H${round(((i + 1) * 1000) / cols.length)}`; });
  const dots = readings.map((r) =>
    `<circle class="reading" cx="${round((100 * (r.event - first + 1)) / n)}%" cy="${round(100 * (1 - r.allocated / top))}%" r="3.5"/>`).join('');
  const most = Math.max(...readings.map((r) => r.allocated));
  const level = (bytes) => round(100 * (1 - bytes / top));
  const text = `${scale(top, 4)}<line class="level" x1="0" x2="100%" y1="${level(most)}%" y2="${level(most)}%"/>` +
    `<text class="level-name" x="100%" y="${level(most)}%" dy="16" text-anchor="end">highest reading ${gib(most)} GiB</text>` +
    `<line class="level true" x1="0" x2="100%" y1="${level(peak)}%" y2="${level(peak)}%"/>` +
    `<text class="level-name" x="100%" y="${level(peak)}%" dy="-6" text-anchor="end">what happened ${gib(peak)} GiB</text>${dots}`;
  return plot(`<path class="trace" d="${line}V${height}Z"/>`, { height, text, label });
}

/** Peaks against the batch: allocated, reserved, the straight line, the card. */
export function batchSweep(sweep, { free, fixed, perSequence, height = 360, label }) {
  const last = sweep.at(-1).batch;
  const top = free * 1.14;
  const x = (b) => round((1000 * b) / (last + 1));
  const px = (b) => round((100 * b) / (last + 1));
  const y = (bytes) => round(height * (1 - bytes / top));
  const py = (bytes) => round(100 * (1 - bytes / top));
  const good = sweep.filter((s) => s.report.verdict === 'fits');
  const bad = sweep.filter((s) => s.report.verdict !== 'fits');
  const line = (key) => good.map((s, i) => `${i ? 'L' : 'M'}${x(s.batch)} ${y(s.report.peak[key])}`).join('');
  const band = `${line('reserved')}${good.slice().reverse().map((s) => `L${x(s.batch)} ${y(s.report.peak.allocated)}`).join('')}Z`;
  const end = (top - fixed) / perSequence;
  const inner = `<path class="gap" d="${band}"/><path class="straight" d="M0 ${y(fixed)}L${x(Math.min(end, last + 1))} ${y(fixed + perSequence * Math.min(end, last + 1))}"/>` +
    `<path class="allocated" d="${line('allocated')}"/><path class="reserved" d="${line('reserved')}"/>`;
  const largest = good.at(-1);
  const ticks = [4, 8, 12, 16, 20, 24].map((b) => `<text class="tick" x="${px(b)}%" y="100%" dy="-4" text-anchor="middle">${b}</text>`).join('');
  const fails = bad.map((s) => `<text class="fail" x="${px(s.batch)}%" y="${py(free)}%" dy="5" text-anchor="middle">✕</text>`).join('');
  const text = `${scale(top, 10)}<line class="level true" x1="0" x2="100%" y1="${py(free)}%" y2="${py(free)}%"/>` +
    `<text class="level-name" x="1%" y="${py(free)}%" dy="-7">free on the card: ${gib(free)} GiB</text>${ticks}${fails}` +
    `<circle class="peak" cx="${px(largest.batch)}%" cy="${py(largest.report.peak.reserved)}%" r="5"/>` +
    `<text class="peak-name" x="${px(largest.batch)}%" y="${py(largest.report.peak.reserved)}%" dx="-10" dy="-8" text-anchor="end">${largest.batch} fits</text>` +
    `<text class="series" x="${px(10)}%" y="${py(good[9].report.peak.reserved)}%" dx="-8" dy="-8" text-anchor="end">reserved</text>` +
    `<text class="series" x="${px(12)}%" y="${py(good[11].report.peak.allocated)}%" dx="10" dy="14">allocated</text>`;
  return plot(inner, { height, text, label });
}

/** The peak as one bar. */
export function bar(report, { total, height = 44, label }) {
  const values = groups.map((g) => g.of.reduce((sum, c) => sum + report.categories[c], 0));
  let from = 0;
  const inner = values.map((value, i) => {
    const width = (1000 * value) / total;
    const rect = `<rect class="g-${groups[i].id}" fill="${groups[i].color}" x="${round(from)}" y="0" width="${round(Math.max(0, width - 1))}" height="${height}"/>`;
    from += width;
    return rect;
  }).join('');
  return plot(inner, { height, label });
}

export const legend = (parts) => `<ul class="legend">${groups.filter((g) => !parts || parts.includes(g.id))
  .map((g) => `<li><span class="swatch s-${g.id}" aria-hidden="true"></span>${g.name}</li>`).join('')}</ul>`;

export const barLegend = (report) => `<ul class="legend">${groups.map((g) => {
  const bytes = g.of.reduce((sum, c) => sum + report.categories[c], 0);
  return `<li><span class="swatch s-${g.id}" aria-hidden="true"></span>${g.name} <b>${int(bytes / 2 ** 20)} MiB</b></li>`;
}).join('')}</ul>`;

/** Segments of the pool as rows, and the one that the card has no room for. Widths are to one scale. */
export function poolRows(rows, { label }) {
  const scale = Math.max(...rows.map((r) => r.size));
  const height = 46;
  const color = Object.fromEntries(groups.flatMap((g) => g.of.map((c) => [c, g])));
  const body = rows.map((row, i) => {
    const y = i * height + 19;
    const frame = `<rect class="segment${row.missing ? ' missing' : ''}" x="0" y="${y}" width="${round((100 * row.size) / scale)}%" height="20"/>`;
    let at = 0;
    const blocks = (row.blocks ?? []).map((b) => {
      const rect = b.allocated ? `<rect class="g-${color[b.category]?.id ?? 'other'}" x="${round((100 * at) / scale)}%" y="${y}" width="${round(Math.max(0.15, (100 * b.size) / scale - 0.1))}%" height="20"/>` : '';
      at += b.size;
      return rect;
    }).join('');
    const room = row.room ? `<rect class="room" x="0" y="${y}" width="${round((100 * row.room) / scale)}%" height="20"/>` : '';
    return `${frame}${blocks}${room}<text class="row-name" x="0" y="${y - 5}">${row.name}</text>`;
  }).join('');
  return `<svg class="plot" width="100%" height="${rows.length * height}" role="img" aria-label="${label}">${body}</svg>`;
}
