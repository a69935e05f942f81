// SVG by hand: elements, and the patterns that go over colours.
import { GROUPS, type Group } from '../data/palette.js';

const NS = 'http://www.w3.org/2000/svg';

export function svg<K extends keyof SVGElementTagNameMap>(name: K, attributes: Record<string, string | number> = {}): SVGElementTagNameMap[K] {
  const element = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  return element;
}

/** Ids are looked up in the shadow root, but a picture that is saved stands alone: one prefix a picture keeps both right. */
let pictures = 0;
export function nextPrefix(): string {
  pictures += 1;
  return `wf${pictures}`;
}

const LINES: Record<Exclude<Group['pattern'], ''> | 'pool' | 'refused', { size: number; d: string; width: number; opacity: number }> = {
  rising: { size: 6, d: 'M-1.5 1.5L1.5 -1.5M0 6L6 0M4.5 7.5L7.5 4.5', width: 1, opacity: 0.38 },
  falling: { size: 6, d: 'M-1.5 4.5L1.5 7.5M0 0L6 6M4.5 -1.5L7.5 1.5', width: 1, opacity: 0.38 },
  level: { size: 5, d: 'M0 2.5H5', width: 1, opacity: 0.34 },
  cross: { size: 6, d: 'M0 3H6M3 0V6', width: 0.8, opacity: 0.3 },
  dots: { size: 6, d: 'M2 2h.01M5 5h.01', width: 1.7, opacity: 0.5 },
  pool: { size: 6, d: 'M-1.5 1.5L1.5 -1.5M0 6L6 0M4.5 7.5L7.5 4.5', width: 0.8, opacity: 0.5 },
  refused: { size: 8, d: 'M-2 6L2 10M0 0L8 8M6 -2L10 2M-2 2L2 -2M0 8L8 0M6 10L10 6', width: 1.1, opacity: 0.85 },
};

export function patternDefs(prefix: string): SVGDefsElement {
  const defs = svg('defs');
  for (const group of GROUPS) {
    const { size } = group.pattern ? LINES[group.pattern] : { size: 8 };
    const pattern = svg('pattern', { id: `${prefix}-${group.id}`, width: size, height: size, patternUnits: 'userSpaceOnUse' });
    pattern.append(svg('rect', { width: size, height: size, class: `fill-${group.id}` }));
    if (group.pattern) pattern.append(lines(group.pattern, 'pattern-on-colour'));
    defs.append(pattern);
  }
  for (const name of ['pool', 'refused'] as const) {
    const { size } = LINES[name];
    const pattern = svg('pattern', { id: `${prefix}-${name}`, width: size, height: size, patternUnits: 'userSpaceOnUse' });
    pattern.append(lines(name, `pattern-${name}`));
    defs.append(pattern);
  }
  return defs;
}

function lines(name: keyof typeof LINES, className: string): SVGPathElement {
  const { d, width, opacity } = LINES[name];
  return svg('path', { d, class: className, fill: 'none', 'stroke-width': width, 'stroke-linecap': 'round', 'stroke-opacity': opacity });
}
