import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FIELDS, get } from '../src/data/fields.js';
import { LINK_LIMIT, readLink, writeLink } from '../src/data/link.js';
import type { Json, Request } from '../src/data/types.js';

/** A value of each field that is not its default. */
function other(name: string): Json {
  const field = FIELDS.find((known) => known.name === name)!;
  if (field.kind === 'whole') return 17;
  if (field.kind === 'switch') return true;
  if (field.kind === 'word') return field.choices!.find((choice) => choice.value !== field.fallback)!.value;
  if (field.kind === 'json') return { some: [1, 'a&b=c#d'] };
  return name === 'model' ? 'gpt2-medium-from-scratch' : 'ä & b=c #1 "<x>"';
}

test('every control goes through a link and back', () => {
  for (const field of FIELDS) {
    if (field.path.length > 1 && field.path[0] === 'model') continue;
    let request: Request = { model: 'gpt2-from-scratch' };
    const value = other(field.name);
    request = field.path.length === 1 ? { ...request, [field.path[0]!]: value } : { ...request, [field.path[0]!]: { [field.path[1]!]: value } };
    const read = readLink(writeLink({ request }))!;
    assert.deepEqual(read.notes, [], field.name);
    assert.deepEqual(get(read.state.request, field.path), value, field.name);
  }
});

test('a model’s own shape travels by its dimensions', () => {
  const model = { model_type: 'gpt2-from-scratch', vocab_size: 50304, n_positions: 2048, n_embd: 1024, n_head: 16, n_layer: 24 };
  const link = writeLink({ request: { model, batch: 4 } });
  assert.deepEqual(readLink(link)!.state.request, { model, batch: 4 });
});

test('a card of one’s own, too', () => {
  const device = { name: 'A <b>card</b>', total_mib: 20000, free_mib: 19500, compute_capability: '8.6', sm_count: 84 };
  const read = readLink(writeLink({ request: { model: 'gpt2-from-scratch', device } }))!;
  assert.deepEqual(read.state.request.device, device);
});

test('equal states give equal links, defaults are left out', () => {
  assert.equal(writeLink({ request: { batch: 8, model: 'gpt2-from-scratch', optimizer: 'adamw', device: 'a40' } }), '#v=1&model=gpt2-from-scratch&batch=8');
  assert.equal(writeLink({ request: { model: 'gpt2-from-scratch', batch: 8 }, unit: 'GiB' }), '#v=1&model=gpt2-from-scratch&batch=8');
});

test('unit and event', () => {
  const read = readLink('#v=1&model=m&unit=MiB&event=412')!;
  assert.equal(read.state.unit, 'MiB');
  assert.equal(read.state.event, 412);
});

test('unknown keys are named, one by one', () => {
  const { notes, state } = readLink('#v=1&model=m&bathc=8&__proto__=1&constructor=2')!;
  assert.equal(notes.length, 3);
  assert.match(notes[0]!, /bathc/);
  assert.match(notes[1]!, /__proto__/);
  assert.deepEqual(state.request, { model: 'm' });
  assert.equal(({} as { polluted?: boolean }).polluted, undefined);
});

test('a page’s own fragment is nobody’s link', () => {
  assert.equal(readLink('#methods'), undefined);
  assert.equal(readLink(''), undefined);
});

test('mangled fragments are answered in words, never thrown', () => {
  assert.match(readLink(`#v=1&model=${'x'.repeat(LINK_LIMIT)}`)!.notes[0]!, /characters long/);
  assert.match(readLink('#v=1&batch=%E0%A4%A')!.notes[0]!, /well encoded/);
  assert.match(readLink('#v=2')!.notes[0]!, /version 2/);
  assert.match(readLink('#v=1&batch=1&batch=2')!.notes[0]!, /twice/);
  let seed = 1;
  const random = () => (seed = (seed * 48271) % 2147483647) / 2147483647;
  const characters = 'v=1&%#<>{}[]"\'\\,.:;abcdefmodel0129-_ \u0000\u202eé';
  for (let i = 0; i < 1000; i += 1) {
    const text = `#v=1&${Array.from({ length: Math.floor(random() * 120) }, () => characters[Math.floor(random() * characters.length)]).join('')}`;
    assert.doesNotThrow(() => readLink(text));
  }
});

test('a wrong value stays text, so that the core can name it', () => {
  const { state } = readLink('#v=1&batch=1e999&clip-grad-norm=maybe&steps=99999999999999999999')!;
  assert.deepEqual(state.request, { batch: '1e999', clip_grad_norm: 'maybe', steps: '99999999999999999999' });
});

test('a preset that is changed in part stays known', () => {
  const read = readLink('#v=1&model=gpt2-from-scratch&model.n-layer=6&device=a40&device.free-mib=40000')!;
  assert.deepEqual(read.state.request, { model: { preset: 'gpt2-from-scratch', n_layer: 6 }, device: { preset: 'a40', free_mib: 40000 } });
});

test('sections written out by the core leave no trace where they are as usual', () => {
  const allocator = { expandable_segments: true, max_split_size_mib: null, roundup_power2_divisions: 0, garbage_collection_threshold: 0 };
  const script = { warmup_matmul: 0, outputs: 'keep', attention_mask: 'none', zero_grad_at: 'end', loss: 'model', data: 'each-step', use_cache: null };
  const link = writeLink({ request: { model: 'gpt2-from-scratch', allocator, script } });
  assert.equal(link, '#v=1&model=gpt2-from-scratch&allocator.expandable-segments=true&script.warmup-matmul=0');
  const other = readLink(writeLink({ request: { model: 'm', script: { ...script, data: 'once' } } }))!;
  assert.deepEqual(other.state.request.script, { warmup_matmul: 0, data: 'once' });
});

test('a model of many keys comes back whole', () => {
  const model = { model_type: 'llama', hidden_size: 576, num_hidden_layers: 6, hidden_act: 'silu', tie_word_embeddings: true, attention_dropout: 0.1 };
  const read = readLink(writeLink({ request: { model, batch: 3 } }))!;
  assert.deepEqual(read.state.request.model, model);
  assert.deepEqual(read.notes, []);
});
