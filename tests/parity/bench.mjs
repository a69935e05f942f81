// node bench.mjs NATIVE: what an interactive page does, in the module and natively, in one run. Best of several, milliseconds.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { loadavg } from 'node:os';
import { gzipSync } from 'node:zlib';
import { loadCore } from '../../web/dist/core.js';

const requests = [
  { model: 'gpt2-from-scratch', batch: 8 },
  { model: 'gpt2-from-scratch', batch: 20, precision: 'amp-bf16', attention: 'sdpa' },
];
const core = await loadCore();

const best = (times, work) => {
  let least = Infinity;
  for (let i = 0; i < times; ++i) {
    const start = performance.now();
    work();
    least = Math.min(least, performance.now() - start);
  }
  return least;
};
const finish = (job) => {
  let longest = 0;
  for (let more = true; more; ) {
    const start = performance.now();
    more = job.step();
    longest = Math.max(longest, performance.now() - start);
  }
  return longest;
};

const wasm = new URL('../../web/dist/whatfits.wasm', import.meta.url);
const bytes = readFileSync(wasm);
console.log(`module: ${bytes.length} bytes, ${gzipSync(bytes, { level: 9 }).length} gzip; load average ${loadavg()[0].toFixed(1)}`);
let worst = 0;
for (const request of requests) {
  const ours = {};
  ours.open = best(20, () => core.open(request).close());
  const run = core.open(request);
  ours.report = best(20, () => run.report());
  ours.summary = best(20, () => run.summary());
  let timeline;
  ours.timeline = best(20, () => (timeline = run.timeline()));
  ours.columns = best(20, () => timeline.columns(0, timeline.count, 800));
  ours.ledger = best(20, () => run.ledger(3000));
  ours.pool = best(20, () => run.pool(3000));
  ours.fit = best(3, () => finish(run.fit()));
  let longest = 0;
  ours.sweep = best(2, () => (longest = finish(run.sweep([4, 8, 12, 16, 20, 24, 28, 32], [128, 256, 512, 1024]))));
  const native = JSON.parse(spawnSync(process.argv[2], ['bench'], { input: `${JSON.stringify(request)}\n` }).stdout);
  console.log(JSON.stringify(request));
  for (const key of Object.keys(ours)) {
    const ratio = ours[key] / native[key];
    if (key === 'open' || key === 'fit' || key === 'sweep') worst = Math.max(worst, ratio);
    console.log(`  ${key.padEnd(9)} module ${ours[key].toFixed(2).padStart(8)}  native ${native[key].toFixed(2).padStart(8)}  ratio ${ratio.toFixed(2)}`);
  }
  console.log(`  longest step of the sweep: ${longest.toFixed(1)} ms`);
}
console.log(`speed: record, replay, fit and sweep take at most ${worst.toFixed(2)} times the native time (to reach: 2.00)`);
