// The ledger's rows as lines of a table: layers that are alike share one.
import type { LedgerRow } from './types.js';

/** Rows of several layers that are otherwise alike. */
export interface Line extends Omit<LedgerRow, 'layer'> {
  layers: number[];
}

export function gather(rows: readonly LedgerRow[], byLayer: boolean): Line[] {
  const lines = new Map<string, Line>();
  rows.forEach((row, i) => {
    // "h.3.attn.c_attn.weight" of layer 3 is like "h.4.attn.c_attn.weight" of layer 4.
    const label = byLayer || row.layer === null ? row.label : row.label.replace(`.${row.layer}.`, '.*.');
    const key = byLayer ? String(i) : JSON.stringify([row.category, label, row.op, row.shape, row.dtype]);
    const line = lines.get(key);
    if (line) {
      line.count += row.count;
      line.bytes += row.bytes;
      if (row.layer !== null && !line.layers.includes(row.layer)) line.layers.push(row.layer);
    } else {
      const { layer, ...rest } = row;
      lines.set(key, { ...rest, label, layers: layer === null ? [] : [layer] });
    }
  });
  return [...lines.values()];
}

export function layersText(layers: readonly number[]): string {
  if (layers.length === 0) return '';
  const sorted = [...layers].sort((a, b) => a - b);
  const first = sorted[0]!;
  const last = sorted.at(-1)!;
  if (sorted.length === 1) return String(first);
  return last - first + 1 === sorted.length ? `${first}–${last}` : sorted.length > 6 ? `${sorted.length} layers` : sorted.join(', ');
}
