// The axis of memory, as all charts through time have it.
import { axisTicks } from '../data/columns.js';
import { size, tick, type Unit } from '../data/units.js';
import { svg } from './patterns.js';

/** Margins of such a chart, CSS pixels. */
export const LEFT = 46;
export const RIGHT = 10;

/** Lines across a chart of `width` × `high` + `head`, with `top` bytes at its head. */
export function memoryAxis(top: number, name: Unit, width: number, head: number, high: number): SVGElement[] {
  const out: SVGElement[] = [];
  const unit = size(name);
  for (const at of axisTicks(top, unit, high < 220 ? 4 : 5)) {
    const y = Math.round(head + high - (at / top) * high) + 0.5;
    out.push(svg('path', { d: `M${LEFT} ${y}H${width - RIGHT}` }));
    const text = svg('text', { x: LEFT - 7, y: y + 4, 'text-anchor': 'end' });
    text.textContent = tick(at / unit);
    out.push(text);
  }
  const label = svg('text', { x: LEFT - 7, y: head + high + 4, 'text-anchor': 'end' });
  label.textContent = name;
  out.push(label, svg('path', { class: 'm-floor', d: `M${LEFT} ${head + high + 0.5}H${width - RIGHT}` }));
  return out;
}
