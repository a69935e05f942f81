import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Engine, Run } from '../src/data/engine.js';
import { importText, suspicious, IMPORT_BYTES } from '../src/data/import.js';
import type { ModelPreset, Problem, Request } from '../src/data/types.js';

/** Knows one model type, as the core would say it, and accepts all else. */
const open = (request: Request | string): Run | Problem[] => {
  const { model } = request as { model: { model_type?: string } };
  const type = model?.model_type;
  if (type === undefined || type === 'gpt2-from-scratch') return { request: request as Request, close: () => undefined } as unknown as Run;
  return [{ key: 'model.model_type', value: type, message: 'is not among what is supported', kind: 'not-allowed', line: '' }];
};
const engine: Engine = {
  devices: [],
  models: [{ id: 'gpt2-from-scratch', parameters: 1, config: { model_type: 'gpt2-from-scratch' } } as ModelPreset],
  modelsToCome: ['gpt2', 'llama-2-7b', 'qwen2-7b'],
  open,
};
const now: Request = { model: 'gpt2-from-scratch', batch: 8, seq_len: 1024 };
const refusal = (text: string): string => {
  const result = importText(text, now, engine);
  assert.ok('refused' in result, text.slice(0, 60));
  return result.refused.join(' ');
};

test('a config of the model from scratch is taken', () => {
  const result = importText('{"model_type": "gpt2-from-scratch", "n_layer": 24, "n_embd": 1024, "n_head": 16, "n_positions": 512}', now, engine);
  assert.ok('request' in result);
  assert.equal(result.request.batch, 8);
  assert.equal(result.request.seq_len, 512);
  assert.match(result.said.join(' '), /n_layer.*512/s);
});

test('other families are refused by name, with what is to come', () => {
  assert.match(refusal('{"model_type": "gpt2"}'), /“gpt2”.*to come/is);
  assert.match(refusal('{"model_type": "llama", "hidden_size": 4096}'), /“llama”.*llama-2-7b/s);
  assert.match(refusal('{"model_type": "<img src=x onerror=alert(1)>"}'), /<img/);
  assert.match(refusal('{"hidden_size": 4096}'), /model_type/);
});

test('what is no config is refused in words', () => {
  assert.match(refusal('hello'), /not JSON/);
  assert.match(refusal('[1, 2]'), /braces/);
  assert.match(refusal('null'), /braces/);
});

test('hostile texts are refused before they are parsed', () => {
  assert.match(refusal(`{"model_type": "${'x'.repeat(10_000_000)}"}`), /MB long/);
  assert.match(refusal(`{"a": ${'['.repeat(5000)}${']'.repeat(5000)}}`), /nested/);
  assert.match(refusal(`{"model_type": "gpt2-from-scratch", "n_embd": ${'9'.repeat(400)}}`), /digits/);
  assert.equal(suspicious(`{"text": "${'['.repeat(100)}${'9'.repeat(400)}"}`), undefined);
  assert.equal(IMPORT_BYTES, 1048576);
});

test('nothing gets into prototypes', () => {
  importText('{"model_type": "gpt2-from-scratch", "__proto__": {"polluted": true}}', now, engine);
  assert.equal(({} as { polluted?: boolean }).polluted, undefined);
});
