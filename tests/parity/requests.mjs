// What is asked on both sides: every request of the truth files, every preset, and the options that change the program.
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';

export const QUESTION = { request: 0, estimate: 1, fitBatch: 2, fitSeqLen: 3, ledger: 4, advise: 5, explain: 6, presets: 7, drawing: 100, measured: 101 };
const truth = new URL('../../fixtures/torch/gpt2-from-scratch.jsonl', import.meta.url);

const published = new URL('../../fixtures/published/requests.json', import.meta.url);
const snapshots = new URL('../../fixtures/torch/snapshots/', import.meta.url);

const options = [
  { batch: 2 },
  { batch: 3, precision: 'amp-bf16', attention: 'sdpa' },
  { batch: 2, precision: 'bf16', checkpointing: 'full', optimizer: 'adamw-fused', clip_grad_norm: true },
  { batch: 4, seq_len: 200, precision: 'amp-fp16', optimizer: 'sgd-momentum', zero_grad: 'zero-fill', grad_accumulation: 2 },
  { batch: 5, allocator: { expandable_segments: true }, steps: 2 },
  { batch: 2, seq_len: 200, optimizer: 'adamw-8bit-paged' },
  { batch: 2, seq_len: 200, optimizer: 'muon', precision: 'bf16' },
  { batch: 2, seq_len: 200, optimizer: 'lion' },
  { batch: 64, engine: 'formula' },
  { batch: 4, engine: 'llm.c' },
  { model: 'gpt2', batch: 64, engine: 'llm.c', precision: 'bf16', checkpointing: 'full', attention: 'eager' },
  { model: 'llama-2-7b', engine: 'mlx', precision: 'bf16', device: 'm2-8gb' },
  { batch: 2, parallel: { strategy: 'ddp', gpus: 8 } },
  { batch: 2, seq_len: 256, parallel: { strategy: 'fsdp', gpus: 3 }, checkpointing: 'full' },
];

const wrong = [
  '',
  '{}',
  '[]',
  'null',
  '{"model": 3}',
  '{"model": "gpt2-from-scratch", "batch": -3, "seq_len": 1e300, "colour": "blue"}',
  '{"model": "gpt2-from-scratch", "device": {"name": "<script>alert(1)</script>", "total_mib": 1.5}}',
  '{"model": "gpt2-from-scratch", "batch": ' + '9'.repeat(400) + '}',
  '{"model": "gpt2-from-scratch", "batch": 1e999}',
  '{"model": "gpt2-from-scratch", "dropout": 0.1, "batch": 2.5, "script": {"warmup_matmul": 0.30000000000000004}}',
  '{"model": "\\ud800"}',
  '['.repeat(100000),
  '{"a":'.repeat(40) + '1' + '}'.repeat(40),
];

/** Every recorded snapshot with its own request and with another's, and files that are none. */
function* measurements() {
  const folder = mkdtempSync(join(tmpdir(), 'parity-'));
  const request = readFileSync(new URL('request.json', snapshots), 'utf8');
  const ask = (name, bytes, text, event) => {
    const file = join(folder, name);
    writeFileSync(file, bytes);
    return { name, question: QUESTION.measured, event, text, file };
  };
  for (const name of readdirSync(snapshots).filter((entry) => entry.endsWith('.gz'))) {
    const bytes = gunzipSync(readFileSync(new URL(name, snapshots)));
    yield ask(name, bytes, request, 700);
    yield ask(`other-${name}`, bytes, JSON.stringify({ ...JSON.parse(request), batch: 9, optimizer: 'sgd-momentum' }), 1e6);
    yield ask(`cut-${name}`, bytes.subarray(0, bytes.length / 2), request, 0);
    yield ask(`wrong-${name}`, bytes, '{"model": 3}', 5);
  }
}

/** @param presets the core's: {models, devices} */
export function* questions(presets) {
  const put = (name, question, request, event = null) => ({ name, question, event, text: typeof request === 'string' ? request : JSON.stringify(request) });
  yield put('presets', QUESTION.presets, '');
  let n = 0;
  for (const line of readFileSync(truth, 'utf8').split('\n')) {
    if (line === '') continue;
    const { id, request } = JSON.parse(line);
    yield put(`${id} request`, QUESTION.request, request);
    yield put(`${id} estimate`, QUESTION.estimate, request);
    yield put(`${id} ledger`, QUESTION.ledger, request, (n * 97) % 6000);
    yield put(`${id} explain`, QUESTION.explain, request);
    if (n % 4 === 0) yield put(`${id} fit`, QUESTION.fitBatch, request);
    if (n % 12 === 0) yield put(`${id} drawing`, QUESTION.drawing, request, (n * 131) % 7000);
    if (n % 40 === 0) yield put(`${id} advise`, QUESTION.advise, request);
    ++n;
  }
  for (const { rows, request } of JSON.parse(readFileSync(published, 'utf8')).requests) {
    yield put(`${rows[0]} request`, QUESTION.request, request);
    yield put(`${rows[0]} estimate`, QUESTION.estimate, request);
  }
  // Every option with the first preset of each type; the others, whose code is the same, with one each.
  const types = new Set();
  for (const [m, model] of presets.models.entries()) {
    const first = !types.has(model.config.model_type);
    types.add(model.config.model_type);
    for (const [i, option] of options.entries()) {
      if (!first && i !== m % options.length) continue;
      const request = { model: model.id, device: 'a100-80gb', ...option };
      yield put(`${model.id} option ${i} estimate`, QUESTION.estimate, request);
      if (first) yield put(`${model.id} option ${i} ledger`, QUESTION.ledger, request);
    }
    yield put(`${model.id} as an object`, QUESTION.request, { model: model.config, device: 'h100' });
  }
  for (const device of presets.devices) yield put(`${device.id} estimate`, QUESTION.estimate, { model: 'gpt2-from-scratch', device: device.id });
  yield put('fit of lengths', QUESTION.fitSeqLen, { model: 'gpt2-from-scratch', batch: 24 });
  yield put('failing drawing', QUESTION.drawing, { model: 'gpt2-from-scratch', batch: 21 }, 1000000);
  yield* measurements();
  for (const [i, text] of wrong.entries()) yield put(`wrong ${i}`, QUESTION.request, text);
}
