import assert from 'node:assert/strict';
import { test } from 'node:test';
import { embedCode, toCsv } from '../src/data/export.js';
import { gather, layersText } from '../src/data/lines.js';
import type { LedgerRow, Report } from '../src/data/types.js';

const row = (layer: number | null, bytes: number, label = 'scores'): LedgerRow => ({
  category: 'attention', label, layer, op: 'bmm', shape: [1, 2], dtype: 'float32', count: 1, bytes, formula: '',
});

test('layers alike share a line', () => {
  const lines = gather([row(0, 5), row(1, 5), row(2, 5), row(null, 7, 'mask')], false);
  assert.equal(lines.length, 2);
  assert.deepEqual([lines[0]!.bytes, lines[0]!.count, layersText(lines[0]!.layers)], [15, 3, '0–2']);
  assert.equal(gather([row(0, 5), row(1, 5)], true).length, 2);
});

test('layers in words', () => {
  assert.equal(layersText([]), '');
  assert.equal(layersText([3]), '3');
  assert.equal(layersText([5, 1]), '1, 5');
});

test('CSV keeps every byte, quotes, and starts no formula', () => {
  const csv = toCsv({ ledger: [row(0, 402653184), row(null, 3, '=HYPERLINK("x"),a')] } as unknown as Report);
  const lines = csv.trim().split('\r\n');
  assert.equal(lines.length, 3);
  assert.match(lines[1]!, /^attention,scores,0,bmm,1x2,float32,1,402653184,/);
  assert.match(lines[2]!, /"'=HYPERLINK\(""x""\),a"/);
});

test('embed code is inert text', () => {
  const code = embedCode({ model: 'gpt2-from-scratch', batch: 8, clip_grad_norm: true, device: { name: '"><script>alert(1)</script>' } }, 'MiB', '<b>16 GiB</b>', 'what-fits.js');
  assert.match(code, /batch="8"/);
  assert.match(code, / clip-grad-norm /);
  assert.match(code, /unit="MiB"/);
  assert.equal(code.match(/<script/g)!.length, 1);
  assert.match(code, /&lt;b&gt;16 GiB/);
});
