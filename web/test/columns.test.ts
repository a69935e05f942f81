import assert from 'node:assert/strict';
import { test } from 'node:test';
import { areaPath, axisTicks, linePath, stackEdges } from '../src/data/columns.js';
import { CATEGORIES, GROUPS } from '../src/data/palette.js';
import type { Columns } from '../src/data/types.js';

function columns(width: number, value: (category: number, x: number) => number): Columns {
  const categories = new Float64Array(CATEGORIES.length * width);
  const allocated = new Float64Array(width);
  for (let c = 0; c < CATEGORIES.length; c += 1) {
    for (let x = 0; x < width; x += 1) {
      categories[c * width + x] = value(c, x);
      allocated[x]! += value(c, x);
    }
  }
  return { width, row: Uint32Array.from({ length: width }, (_, x) => x), allocated, reserved: allocated.slice(), categories };
}

/** Highest point of a path: the smallest y. */
function top(path: string): number {
  return Math.min(...[...path.matchAll(/V(-?[\d.]+)/g)].map((match) => Number(match[1])), ...[...path.matchAll(/M0 (-?[\d.]+)/g)].map((match) => Number(match[1])));
}

test('the stack’s upper edge is what is allocated, in every column', () => {
  const made = columns(50, (c, x) => (c * 7919 + x * 104729) % 1000);
  const edges = stackEdges(made);
  for (let x = 0; x < 50; x += 1) assert.equal(edges[(GROUPS.length - 1) * 50 + x], made.allocated[x]);
});

test('painting never loses the peak, wherever it is', () => {
  for (let at = 0; at < 300; at += 1) {
    const made = columns(300, (c, x) => (c === 7 && x === at ? 1000 : 1));
    const edges = stackEdges(made);
    const path = areaPath(edges, (GROUPS.length - 1) * 300, 300, 0.1, 200);
    assert.equal(top(path), Math.round((200 - 1010 * 0.1) * 10) / 10);
    assert.equal(top(linePath(made.allocated, 0, 300, 0.1, 200)), top(path));
  }
});

test('no columns give no line and no error', () => {
  const made = columns(0, () => 0);
  assert.equal(linePath(made.allocated, 0, 0, 1, 10), '');
  assert.equal(areaPath(stackEdges(made), 0, 0, 1, 10), 'M0 10H0V10Z');
});

test('axis figures are round and below the top', () => {
  assert.deepEqual(axisTicks(44, 1), [10, 20, 30, 40]);
  assert.deepEqual(axisTicks(3.1, 1), [1, 2, 3]);
  assert.deepEqual(axisTicks(0, 1), []);
});
