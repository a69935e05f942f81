// A measured run with its prediction over it, painted by hand into one SVG like the mountain: what is allocated as an area, what is
// reserved as a line, and the prediction of both as lines of another colour and dash.
import { areaPath, linePath } from '../data/columns.js';
import type { RecordedColumns, RecordingSummary } from '../data/types.js';
import { bytes, type Unit } from '../data/units.js';
import { LEFT, memoryAxis, RIGHT } from './axis.js';
import { svg } from './patterns.js';

const HEAD = 30;
const FOOT = 8;

export interface MeasuredView {
  width: number;
  height: number;
  /** Events shown: [begin, end). */
  begin: number;
  end: number;
  unit: Unit;
  /** There is a prediction to draw. */
  beside: boolean;
}

export class MeasuredPaint {
  #svg: SVGSVGElement;
  #plot = svg('g', { transform: `translate(${LEFT} ${HEAD})` });
  #area = svg('path', { class: 'r-area' });
  #reserved = svg('path', { class: 'm-reserved' });
  #predictedReserved = svg('path', { class: 'r-predicted r-reserved' });
  #predicted = svg('path', { class: 'r-predicted' });
  #axis = svg('g', { class: 'm-axis' });
  #marks = svg('g', { class: 'm-flag' });
  #cursor = svg('g', { class: 'm-cursor' });
  #view?: MeasuredView;
  #columns?: RecordedColumns;

  constructor(picture: SVGSVGElement) {
    this.#svg = picture;
    this.#plot.append(this.#area, this.#reserved, this.#predictedReserved, this.#predicted);
    picture.replaceChildren(this.#axis, this.#plot, this.#marks, this.#cursor);
  }

  /** Event under a position in the picture, in CSS pixels from its left edge. */
  eventAt(x: number): number | undefined {
    const columns = this.#columns;
    if (!columns || columns.width === 0) return undefined;
    return columns.event[Math.max(0, Math.min(columns.width - 1, Math.floor(x - LEFT)))];
  }

  /** How wide the plot is of a picture of `width`. */
  static plotWidth(width: number): number {
    return Math.max(20, Math.floor(width - LEFT - RIGHT));
  }

  paint(columns: RecordedColumns, view: MeasuredView, { peak, failures, retries }: RecordingSummary): void {
    this.#view = view;
    this.#columns = columns;
    const floor = view.height - HEAD - FOOT;
    let most = 1;
    for (const series of [columns.reserved, columns.allocated, columns.predictedAllocated, columns.predictedReserved]) for (const value of series) most = Math.max(most, value);
    const top = most * 1.12;
    const scale = floor / top;
    const n = columns.width;
    this.#svg.setAttribute('viewBox', `0 0 ${view.width} ${view.height}`);
    this.#svg.setAttribute('height', String(view.height));
    this.#area.setAttribute('d', areaPath(columns.allocated, 0, n, scale, floor));
    this.#reserved.setAttribute('d', linePath(columns.reserved, 0, n, scale, floor));
    this.#predicted.setAttribute('d', view.beside ? linePath(columns.predictedAllocated, 0, n, scale, floor) : '');
    this.#predictedReserved.setAttribute('d', view.beside ? linePath(columns.predictedReserved, 0, n, scale, floor) : '');
    this.#axis.replaceChildren(...memoryAxis(top, view.unit, view.width, HEAD, floor));

    const marks: SVGElement[] = [];
    const mark = (event: number, words: string, y: number): void => {
      if (event < view.begin || event >= view.end) return;
      const x = this.#x(event);
      const right = x > view.width / 2;
      const text = svg('text', { x: x + (right ? -7 : 7), y: Math.max(14, y), 'text-anchor': right ? 'end' : 'start', class: 'm-peak' });
      text.textContent = words;
      marks.push(svg('path', { d: `M${x} ${HEAD - 4}V${HEAD + floor}`, class: 'm-pole' }), text);
    };
    const height = HEAD + floor - peak.allocated * scale;
    mark(peak.event, `peak ${bytes(peak.allocated, view.unit)}`, height - 8);
    for (const failure of failures.slice(0, 8)) mark(failure.event, 'out of memory', HEAD - 12);
    for (const event of retries.slice(0, 40)) {
      if (event >= view.begin && event < view.end) marks.push(svg('path', { d: `M${this.#x(event)} ${HEAD + floor - 8}V${HEAD + floor}`, class: 'm-pole' }));
    }
    this.#marks.replaceChildren(...marks);
  }

  #x(event: number): number {
    const { begin, end, width } = this.#view!;
    return LEFT + ((event - begin + 0.5) / Math.max(1, end - begin)) * MeasuredPaint.plotWidth(width);
  }

  cursor(event: number): void {
    const view = this.#view;
    const outside = !view || event < view.begin || event >= view.end;
    this.#cursor.replaceChildren(...(outside ? [] : [svg('path', { d: `M${this.#x(event)} ${HEAD - 4}V${view.height - FOOT}` })]));
  }
}
