// Segments as bars, split into their blocks: long ones take a line each, short ones share lines.
import { svg } from './patterns.js';

export interface Bar<Block> {
  address: number;
  size: number;
  blocks: (Block & { address: number; size: number })[];
}

/** How a block looks, and what is said when it is pointed at. */
export interface Look {
  fill: string;
  used: boolean;
  say: string;
}

const ROW = 15;
const GAP = 4;
const MOST_ROWS = 26;

/** Paints into `picture`, the largest segment as wide as it. */
export function paintPool<Block>(picture: SVGSVGElement, width: number, segments: readonly Bar<Block>[], defs: SVGElement, look: (block: Block & { size: number }) => Look): void {
  const bars = [...segments].sort((a, b) => b.size - a.size);
  const scale = (width - 2) / (bars[0]?.size ?? 1);
  const parts: SVGElement[] = [defs];
  let x = 0;
  let y = 0;
  let line = 0;
  let left = 0;
  for (const segment of bars) {
    const wide = Math.max(2, segment.size * scale);
    if (x > 0 && x + wide > width - 1) {
      x = 0;
      y += ROW + GAP;
      line += 1;
    }
    if (line >= MOST_ROWS) {
      left += 1;
      continue;
    }
    for (const block of segment.blocks) {
      const { fill, used, say } = look(block);
      const at = x + 1 + (block.address - segment.address) * scale;
      const rect = svg('rect', { x: at.toFixed(1), y, width: Math.max(0.6, block.size * scale).toFixed(1), height: ROW, fill, class: used ? 'pool-used' : 'pool-free' });
      rect.dataset.say = say;
      parts.push(rect);
    }
    parts.push(svg('rect', { x: x + 1, y, width: wide.toFixed(1), height: ROW, class: 'pool-edge', rx: 1.5 }));
    x += wide + 3;
  }
  const height = y + ROW + (left > 0 ? 20 : 2);
  if (left > 0) {
    const text = svg('text', { x: 0, y: height - 4 });
    text.textContent = `and ${left} shorter segments`;
    parts.push(text);
  }
  picture.setAttribute('viewBox', `0 0 ${width} ${height}`);
  picture.setAttribute('height', String(height));
  picture.replaceChildren(...parts);
}
