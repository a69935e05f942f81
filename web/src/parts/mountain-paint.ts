// The mountain's picture: memory through the step, painted by hand into one SVG. One path per series from one value per pixel
// column, so a frame costs the same for a thousand events and for fifty thousand.
import { areaPath, linePath, stackEdges } from '../data/columns.js';
import { GROUPS } from '../data/palette.js';
import type { Columns, Stretch, Timeline } from '../data/types.js';
import { bytes, fixed, type Unit } from '../data/units.js';
import { LEFT, memoryAxis, RIGHT } from './axis.js';
import { nextPrefix, patternDefs, svg } from './patterns.js';

export interface View {
  width: number;
  height: number;
  /** Rows shown: [begin, end). */
  begin: number;
  end: number;
  /** Bytes at the top of the plot. */
  top: number;
  unit: Unit;
  free: number;
  card: string;
  /** The run's peak is in this step. */
  whole: boolean;
}

const HEAD = 30;
const FOOT = 8;
/** Room to the right of the last event for the request that was refused. */
const REFUSED = 30;

export class MountainPaint {
  readonly prefix = nextPrefix();
  #svg: SVGSVGElement;
  #plot = svg('g');
  #areas: SVGPathElement[] = [];
  #slack = svg('path', { class: 'm-slack' });
  #reserved = svg('path', { class: 'm-reserved' });
  #allocated = svg('path', { class: 'm-allocated' });
  #axis = svg('g', { class: 'm-axis' });
  #phases = svg('g', { class: 'm-phases' });
  #labels = svg('g', { class: 'm-labels' });
  #limit = svg('g', { class: 'm-limit' });
  #flag = svg('g', { class: 'm-flag' });
  #refused = svg('g', { class: 'm-refused' });
  #cursor = svg('g', { class: 'm-cursor' });
  #view?: View;
  #columns?: Columns;
  #plotWidth = 0;

  constructor(picture: SVGSVGElement) {
    this.#svg = picture;
    this.#slack.setAttribute('fill', `url(#${this.prefix}-pool)`);
    this.#plot.append(this.#slack);
    for (let g = GROUPS.length - 1; g >= 0; g -= 1) {
      const area = svg('path', { class: 'm-area', fill: `url(#${this.prefix}-${GROUPS[g]!.id})` });
      this.#areas[g] = area;
      this.#plot.append(area);
    }
    this.#plot.append(this.#allocated, this.#reserved);
    const clip = svg('clipPath', { id: `${this.prefix}-clip` });
    clip.append(svg('rect', { x: 0, y: -HEAD, width: 0, height: 0 }));
    this.#plot.setAttribute('transform', `translate(${LEFT} ${HEAD})`);
    this.#svg.replaceChildren(
      patternDefs(this.prefix), this.#axis, this.#phases, this.#plot, this.#labels, this.#limit, this.#refused, this.#flag, this.#cursor,
    );
  }

  /** Row under a position in the picture, in CSS pixels from its left edge. */
  rowAt(x: number): number | undefined {
    const columns = this.#columns;
    if (!columns || !this.#view || columns.row.length === 0) return undefined;
    const column = Math.max(0, Math.min(columns.row.length - 1, Math.floor(x - LEFT)));
    return columns.row[column];
  }

  /** How far into the plot a position is, 0 to 1. */
  fraction(x: number): number {
    return Math.max(0, Math.min(1, (x - LEFT) / Math.max(1, this.#plotWidth)));
  }

  paint(timeline: Timeline, view: View): void {
    this.#view = view;
    const refused = timeline.oom !== null && view.end >= timeline.count;
    this.#plotWidth = Math.max(20, Math.floor(view.width - LEFT - RIGHT - (refused ? REFUSED : 0)));
    const width = this.#plotWidth;
    const floor = view.height - HEAD - FOOT;
    const scale = floor / view.top;
    const columns = timeline.columns(view.begin, view.end, width);
    this.#columns = columns;
    const n = columns.row.length;
    this.#svg.setAttribute('viewBox', `0 0 ${view.width} ${view.height}`);
    this.#svg.setAttribute('height', String(view.height));

    const edges = stackEdges(columns);
    for (let g = 0; g < GROUPS.length; g += 1) this.#areas[g]!.setAttribute('d', areaPath(edges, g * n, n, scale, floor));
    this.#slack.setAttribute('d', areaPath(columns.reserved, 0, n, scale, floor));
    this.#reserved.setAttribute('d', linePath(columns.reserved, 0, n, scale, floor));
    this.#allocated.setAttribute('d', linePath(columns.allocated, 0, n, scale, floor));

    this.#axis.replaceChildren(...memoryAxis(view.top, view.unit, view.width, HEAD, floor));
    this.#paintPhases(timeline.phases, view, floor);
    this.#paintLabels(edges, n, scale, floor);
    this.#paintLimit(view, scale, floor);
    this.#paintRefused(timeline, view, scale, floor, refused);
    this.#paintFlag(timeline, view, scale, floor);
  }

  #x(row: number): number {
    const { begin, end } = this.#view!;
    return LEFT + ((row - begin + 0.5) / Math.max(1, end - begin)) * this.#plotWidth;
  }

  #paintPhases(phases: Stretch[], view: View, floor: number): void {
    const out: SVGElement[] = [];
    for (const phase of phases) {
      const begin = Math.max(phase.begin, view.begin);
      const end = Math.min(phase.end, view.end);
      if (begin >= end) continue;
      const from = this.#x(begin - 0.5);
      const to = this.#x(end - 0.5);
      if (phase.begin > view.begin) out.push(svg('path', { class: 'm-divide', d: `M${from} ${HEAD - 18}V${HEAD + floor}` }));
      const name = phase.name.replace(/_/g, ' ');
      const short = name.split(' ').at(-1) === 'step' ? 'step' : name;
      const label = to - from > name.length * 6.6 + 8 ? name : to - from > short.length * 6.6 + 6 ? short : '';
      if (label) {
        const text = svg('text', { x: (from + to) / 2, y: HEAD - 12, 'text-anchor': 'middle' });
        text.textContent = label;
        out.push(text);
      }
      out.push(svg('path', { class: `m-phase m-phase-${phase.name}`, d: `M${from + 1} ${HEAD - 4}H${Math.max(from + 1.5, to - 1)}` }));
    }
    this.#phases.replaceChildren(...out);
  }

  /** Names on the areas themselves, where an area is thick for as long as its name. */
  #paintLabels(edges: Float64Array, n: number, scale: number, floor: number): void {
    const out: SVGElement[] = [];
    GROUPS.forEach((group, g) => {
      const lower = (x: number) => (g === 0 ? 0 : edges[(g - 1) * n + x]!) * scale;
      const upper = (x: number) => edges[g * n + x]! * scale;
      const need = group.label.length * 6.7 + 10;
      // The longest run of columns through which one line of text fits at one height.
      let best: { from: number; to: number; y: number } | undefined;
      for (let from = 0; from < n; ) {
        let low = lower(from);
        let high = upper(from);
        let to = from;
        while (to + 1 < n && Math.min(high, upper(to + 1)) - Math.max(low, lower(to + 1)) >= 17) {
          to += 1;
          low = Math.max(low, lower(to));
          high = Math.min(high, upper(to));
        }
        if (high - low >= 17 && to - from >= need && (!best || to - from > best.to - best.from)) best = { from, to, y: (low + high) / 2 };
        from = to + 1;
      }
      if (!best) return;
      const text = svg('text', { x: LEFT + (best.from + best.to) / 2, y: HEAD + floor - best.y + 4, 'text-anchor': 'middle', class: `on-colour on-${group.id}` });
      text.textContent = group.label;
      out.push(text);
    });
    this.#labels.replaceChildren(...out);
  }

  /** Its name stands above the line, on the left. */
  #paintLimit(view: View, scale: number, floor: number): void {
    const y = HEAD + floor - view.free * scale;
    const above = y < HEAD - 2;
    const text = svg('text', { x: LEFT + 6, y: above ? HEAD + 14 : y - 5 });
    text.textContent = `${above ? '↑ ' : ''}${view.card} · ${fixed(view.free, view.unit, view.unit === 'MiB' ? 0 : 1)} free`;
    this.#limit.replaceChildren(...(above ? [] : [svg('path', { d: `M${LEFT} ${y}H${view.width - RIGHT}` })]), text);
  }

  /** What the card could not give: a hatched block on top of what the pool holds, through the limit. */
  #paintRefused(timeline: Timeline, view: View, scale: number, floor: number, shown: boolean): void {
    const { oom } = timeline;
    if (!oom || !shown) {
      this.#refused.replaceChildren();
      return;
    }
    const x = LEFT + this.#plotWidth;
    const base = HEAD + floor - oom.reserved * scale;
    const high = Math.max(6, oom.requested * scale);
    const y = Math.max(2, base - high);
    this.#refused.replaceChildren(
      svg('rect', { class: 'm-held', x, y: base, width: REFUSED - 4, height: Math.max(0, HEAD + floor - base) }),
      svg('rect', { x, y, width: REFUSED - 4, height: base - y, fill: `url(#${this.prefix}-refused)`, class: 'm-block' }),
    );
  }

  #paintFlag(timeline: Timeline, view: View, scale: number, floor: number): void {
    const { peak } = timeline;
    if (peak < view.begin || peak >= view.end) {
      this.#flag.replaceChildren();
      return;
    }
    const row = timeline.row(peak);
    const x = this.#x(peak);
    const y = HEAD + floor - row.allocated * scale;
    const words = [`${view.whole ? 'peak' : 'highest here'} ${bytes(row.allocated, view.unit)}`, `${row.op}, ${bytes(row.bytes, view.unit)}`];
    const wide = Math.max(...words.map((line) => line.length)) * 6.7 + 10;
    // Right of the peak, else left of it, else as far right as the words allow.
    const edge = view.width - RIGHT;
    const left = x + wide > edge && x - wide > LEFT;
    const from = left ? x - 9 : Math.min(x + 9, edge - wide + 10);
    let at = Math.max(HEAD + 14, Math.min(y - 12, HEAD + floor - 30));
    // Two lines of words, and not across the line of `reserved`.
    const reserved = HEAD + floor - row.reserved * scale;
    if (reserved > at - 14 && reserved < at + 20) at = reserved + 16;
    const label = svg('g');
    words.forEach((line, i) => {
      const text = svg('text', { x: from, y: at + i * 15, 'text-anchor': left ? 'end' : 'start', class: i === 0 ? 'm-peak' : 'm-op' });
      text.textContent = line;
      label.append(text);
    });
    this.#flag.replaceChildren(svg('path', { d: `M${x} ${HEAD}V${y}`, class: 'm-pole' }), svg('circle', { cx: x, cy: y, r: 3.5 }), label);
  }

  cursor(timeline: Timeline, row: number): void {
    const view = this.#view;
    if (!view || row < view.begin || row >= view.end) {
      this.#cursor.replaceChildren();
      return;
    }
    const x = this.#x(row);
    const floor = view.height - HEAD - FOOT;
    const { allocated } = timeline.row(row);
    const y = HEAD + floor - (allocated / view.top) * floor;
    this.#cursor.replaceChildren(svg('path', { d: `M${x} ${HEAD - 4}V${HEAD + floor}` }), svg('circle', { cx: x, cy: y, r: 4 }));
  }
}

/** "Backward of layer 3: softmax_backward allocates 384 MiB for gradient of the scores" */
export function eventSentence(timeline: Timeline, index: number, unit: Unit): string {
  const row = timeline.row(index);
  const place = `${sentenceCase(row.phase.replace(/_/g, ' '))}${row.layer === null ? '' : ` of layer ${row.layer}`}`;
  const named = row.label && row.label !== row.op;
  return row.alloc
    ? `${place}: ${row.op} allocates ${bytes(row.bytes, unit)}${named ? ` for ${row.label}` : ''}`
    : `${place}: ${bytes(row.bytes, unit)} ${row.label ? `of ${row.label} ` : ''}are freed`;
}

const sentenceCase = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);
