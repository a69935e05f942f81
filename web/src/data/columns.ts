// From columns of bytes to the `d` of one SVG path per series.
import { CATEGORIES, GROUP_OF, GROUPS } from './palette.js';
import type { Columns } from './types.js';

/**
 * Heights of the stack's upper edges, group-major: `edges[g * width + x]` is the sum of groups 0..g in column x. The topmost
 * edge is the column's highest `allocated`.
 */
export function stackEdges(columns: Columns): Float64Array {
  const width = columns.row.length;
  const edges = new Float64Array(GROUPS.length * width);
  for (let c = 0; c < CATEGORIES.length; c += 1) {
    const into = GROUP_OF[c]! * width;
    const from = c * width;
    for (let x = 0; x < width; x += 1) edges[into + x]! += columns.categories[from + x]!;
  }
  for (let i = width; i < edges.length; i += 1) edges[i]! += edges[i - width]!;
  return edges;
}

/**
 * A stepped area from the floor up to `values`, one column a pixel. Painted tallest first, each area covers the next one's lower
 * part, so a stack needs no lower edges. Equal neighbours share one step; nothing is averaged away.
 */
export function areaPath(values: Float64Array, offset: number, width: number, scale: number, floor: number): string {
  let path = `M0 ${floor}`;
  let last = NaN;
  for (let x = 0; x < width; x += 1) {
    const y = Math.round((floor - values[offset + x]! * scale) * 10) / 10;
    if (y !== last) {
      path += x === 0 ? `V${y}` : `H${x}V${y}`;
      last = y;
    }
  }
  return `${path}H${width}V${floor}Z`;
}

/** The same as an open line. */
export function linePath(values: Float64Array, offset: number, width: number, scale: number, floor: number): string {
  let path = '';
  let last = NaN;
  for (let x = 0; x < width; x += 1) {
    const y = Math.round((floor - values[offset + x]! * scale) * 10) / 10;
    if (y !== last) {
      path += x === 0 ? `M0 ${y}` : `H${x}V${y}`;
      last = y;
    }
  }
  return width === 0 ? '' : `${path}H${width}`;
}

/** Round figures for an axis of `top` bytes: at most `most` of them, the zero left out. */
export function axisTicks(top: number, unit: number, most = 5): number[] {
  const units = top / unit;
  if (!(units > 0)) return [];
  const raw = units / most;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw)!;
  const ticks: number[] = [];
  for (let value = step; value < units * 0.999; value += step) ticks.push(value * unit);
  return ticks;
}
