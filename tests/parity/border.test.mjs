// node --test: hostile text, memory growth, traps, and every named failure of the loader.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { Core, CoreError, loadCore, RequestError, runJob } from '../../web/dist/core.js';
import { unpack } from '../../web/pack.mjs';

const bytes = readFileSync(new URL('../../web/dist/whatfits.wasm', import.meta.url));
const core = await loadCore();
const { default: embedded } = await import('../../web/dist/embedded.js');
const packed = Uint8Array.from(Buffer.from(embedded, 'base64'));
const gpt2 = { model: 'gpt2-from-scratch' };

test('three instances on a page share one core', async () => {
  const all = await Promise.all([loadCore(), loadCore(), loadCore(bytes)]);
  assert.ok(all.every((one) => one === core));
});

test('bytes, an ArrayBuffer, base64 text, an address and a compiled module all load', async () => {
  const url = new URL('../../web/dist/whatfits.wasm', import.meta.url);
  const buffer = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
  for (const source of [bytes, buffer, embedded, packed, bytes.toString('base64'), url, url.href, await WebAssembly.compile(bytes)]) {
    const one = await Core.make(source);
    assert.equal(one.estimate({ ...gpt2, batch: 1 }).verdict, 'fits');
  }
});

test('what comes out of the packed module is the module; a damaged one is refused', async () => {
  assert.ok(bytes.equals(await unpack(packed)));
  const [section] = WebAssembly.Module.customSections(await WebAssembly.compile(packed), 'packed');
  const length = section.byteLength - 13; // without the .lzma file's header
  for (const at of [1, 5, 1000, length >> 1, length - 100]) {
    const damaged = packed.slice();
    damaged[packed.length - length + at] ^= 0x55;
    const result = await unpack(damaged).catch((error) => error); // a trap will do
    assert.ok(result instanceof WebAssembly.RuntimeError || result instanceof RangeError || !bytes.equals(result), `damaged at ${at}: ${result}`);
  }
  const torn = packed.slice();
  torn.set(new Uint8Array(64).fill(0x5a), packed.length - length + 5);
  assert.equal((await Core.make(torn).catch((error) => error)).reason, 'broken');
});

test('the module asks for nothing but these', async () => {
  const wanted = WebAssembly.Module.imports(await WebAssembly.compile(bytes)).map(({ module, name }) => `${module}.${name}`);
  const allowed = ['env.emscripten_notify_memory_growth', ...['fd_close', 'fd_write', 'fd_seek', 'proc_exit'].map((name) => `wasi_snapshot_preview1.${name}`)];
  assert.deepEqual(wanted.filter((name) => !allowed.includes(name)), []);
});

test('loading fails with a named reason', async () => {
  const reason = async (source) => (await Core.make(source).catch((error) => error)).reason;
  assert.equal(await reason(new URL('file:///nowhere/whatfits.wasm')), 'fetch');
  assert.equal(await reason('http://127.0.0.1:9/whatfits.wasm'), 'fetch');
  assert.equal(await reason(Uint8Array.of(1, 2, 3)), 'broken');
  assert.equal(await reason(Uint8Array.of(0, 0x61, 0x73, 0x6d, 1, 0, 0, 0)), 'broken');
  const { WebAssembly: whole } = globalThis;
  try {
    globalThis.WebAssembly = undefined;
    assert.equal(await reason(bytes), 'no-webassembly');
    globalThis.WebAssembly = {
      ...whole,
      Module: class {
        constructor() {
          throw new whole.CompileError('Wasm code generation disallowed by embedder');
        }
      },
      instantiate: whole.instantiate,
      compile: () => Promise.reject(new whole.CompileError('Wasm code generation disallowed by embedder')),
    };
    assert.equal(await reason(bytes), 'csp');
  } finally {
    globalThis.WebAssembly = whole;
  }
});

test('hostile text is refused in words', () => {
  const hostile = [
    '['.repeat(100_000),
    `{"a":${'['.repeat(100_000)}`,
    '{"model":'.repeat(100_000),
    `{"model": "gpt2-from-scratch", "batch": ${'9'.repeat(400)}}`,
    '{"model": "gpt2-from-scratch", "batch": 1e400}',
    `{"model": "${'x'.repeat(10_000_000)}"}`,
    ' '.repeat(10_000_000),
    '{"model": "\\ud800"}',
    '{"model": "gpt2-from-scratch", "\\udc00": 1}',
    '{"model": "gpt2-from-scratch"}\0{}',
    '\0',
    '{"model": {"model_type": "<img src=x onerror=alert(1)>"}}',
    '{"__proto__": {"model": 1}}',
    JSON.stringify({ ...gpt2, batch: 1 << 20, seq_len: 1024 }),
    JSON.stringify({ ...gpt2, device: { name: 'x'.repeat(300), total_mib: 1 } }),
  ];
  for (const text of hostile) {
    const answer = core.check(text);
    if ('request' in answer) continue;
    assert.ok(answer.problems.length > 0);
    for (const problem of answer.problems) assert.ok(problem.line.length > 0 && problem.line.length < 2000, problem.line.slice(0, 200));
    assert.throws(() => core.estimate(text), RequestError);
    assert.ok(Array.isArray(core.open(text)));
  }
  // A lone surrogate in a JavaScript string becomes U+FFFD on the way in.
  assert.ok('problems' in core.check('{"model": "\ud800"}'));
  assert.equal(core.estimate({ ...gpt2, batch: 8 }).verdict, 'fits');
});

test('memory grows and views are not stale', () => {
  const run = core.open({ ...gpt2, batch: 8 });
  const timeline = run.timeline();
  const before = timeline.allocated.slice();
  const wide = core.open({ model: { model_type: 'gpt2-from-scratch', n_layer: 400, n_embd: 768, n_head: 12 }, batch: 1, device: 'h100' });
  assert.ok(wide.timeline().count > 20_000);
  wide.close();
  assert.deepEqual(timeline.allocated, before);
  assert.equal(timeline.columns(0, timeline.count, 100).width, 100);
  run.close();
});

test('a trap throws the instance away, and runs go on in a new one', async () => {
  const one = await Core.make(bytes);
  const run = one.open({ ...gpt2, batch: 8 });
  const job = run.fit();
  const report = run.report();
  const timeline = run.timeline();
  trap(one);
  assert.throws(() => job.step(), (error) => error instanceof CoreError && error.reason === 'trap');
  assert.deepEqual(run.report(), report);
  assert.equal(timeline.columns(0, timeline.count, 50).width, 50);
  run.close();
  run.close();
  assert.throws(() => run.report(), /closed/);
});

/** Makes the next call trap by asking for more than there can be. */
const trap = (one) => {
  const { TextEncoder: whole } = globalThis;
  const prototype = whole.prototype;
  const encode = prototype.encode;
  prototype.encode = () => ({ length: 0xfffffff0 });
  try {
    assert.throws(() => one.check('{}'), (error) => error instanceof CoreError && error.reason === 'trap');
  } finally {
    prototype.encode = encode;
  }
};

test('columns never lose the peak', () => {
  const run = core.open({ ...gpt2, batch: 20 });
  const timeline = run.timeline();
  const peak = timeline.allocated[timeline.peak];
  for (const width of [1, 2, 7, 100, 800, timeline.count, 3 * timeline.count]) {
    const columns = timeline.columns(0, timeline.count, width);
    assert.equal(columns.width, width);
    assert.equal(Math.max(...columns.allocated), peak);
    assert.equal(columns.row[0], width >= timeline.count ? 0 : columns.row[0]);
    for (let x = 0; x < width; ++x) {
      let sum = 0;
      for (let c = 0; c < timeline.categories.length; ++c) sum += columns.categories[c * width + x];
      assert.equal(sum, columns.allocated[x]);
    }
  }
  assert.equal(timeline.columns(5, 5, 10).width, 0);
  assert.equal(timeline.columns(0, 10, 0).width, 0);
  assert.equal(timeline.row(timeline.peak).allocated, run.report().steps.at(-1).peak.allocated);
  run.close();
});

test('the pool covers reserved, and its used blocks are the ledger', () => {
  const run = core.open({ ...gpt2, batch: 8 });
  const { event } = run.report().peak.at;
  const pool = run.pool(event);
  const ledger = run.ledger(event);
  const blocks = pool.segments.flatMap((segment) => segment.blocks);
  const sum = (list, of) => list.reduce((total, item) => total + of(item), 0);
  assert.equal(sum(pool.segments, (segment) => segment.size), pool.reserved);
  assert.equal(sum(blocks, (block) => (block.allocated ? block.size : 0)), pool.allocated);
  assert.equal(sum(blocks, (block) => block.requested), ledger.allocated - ledger.categories.rounding);
  assert.ok(blocks.every((block) => block.allocated === (block.label !== '')));
  run.close();
  const failing = core.open({ ...gpt2, batch: 21 });
  assert.match(failing.pool().oom.message, /out of memory/);
  failing.close();
});

test('jobs give the answers of the questions at once', async () => {
  const request = { ...gpt2, batch: 8, model: { model_type: 'gpt2-from-scratch', n_layer: 2, n_embd: 256, n_head: 4, vocab_size: 5000 } };
  const run = core.open(request);
  const fit = run.fit();
  const searched = await runJob(fit);
  assert.deepEqual(searched, core.fit(request));
  assert.equal(fit.largest(), searched.largest_batch);
  const advised = await runJob(run.advise());
  const { tried, of, ...rest } = advised;
  assert.equal(tried, of);
  assert.deepEqual(rest, core.advise(request));
  const cells = await runJob(run.sweep([1, 2, 3], [64, 128]), { budget: 1 });
  assert.deepEqual([...cells.batch], [1, 1, 2, 2, 3, 3]);
  assert.deepEqual([...cells.seq_len], [64, 128, 64, 128, 64, 128]);
  assert.throws(() => run.sweep([0, 1], [64]), RequestError);
  assert.throws(() => run.sweep([1], [4096]), RequestError);
  assert.throws(() => run.sweep([1.5e16], [64]), RequestError);
  const cancelled = new AbortController();
  cancelled.abort();
  await assert.rejects(runJob(run.sweep([1], [64]), { signal: cancelled.signal }));
  run.close();
});
