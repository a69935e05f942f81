// node parity.mjs NATIVE: asks the native library and web/dist/core.js the same and compares the answers byte for byte.
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { loadCore } from '../../web/dist/core.js';
import { openRecording, RequestError } from '../../web/dist/snapshot.js';
import { QUESTION, questions } from './requests.mjs';

const name = Object.fromEntries(Object.entries(QUESTION).map(([key, value]) => [value, key]));

const fingerprint = (...arrays) => {
  const size = arrays.reduce((sum, array) => sum + array.byteLength, 0);
  const bytes = new Uint8Array(Math.ceil(size / 8) * 8);
  let used = 0;
  for (const array of arrays) {
    bytes.set(new Uint8Array(array.buffer, array.byteOffset, array.byteLength), used);
    used += array.byteLength;
  }
  let hash = 0xcbf29ce484222325n;
  for (const word of new BigUint64Array(bytes.buffer)) hash = ((hash ^ word) * 0x100000001b3n) & 0xffffffffffffffffn;
  return hash;
};

/** The same as drawing() in native.cpp, by way of the typed interface. */
const drawing = (core, text, event) => {
  const run = core.open(text);
  const t = run.timeline(-1);
  const columns = (begin, end, width) => {
    const c = t.columns(begin, end, width);
    return `${c.width}:${fingerprint(c.allocated, c.reserved, c.categories, c.row)}`;
  };
  const head = { step: t.step, labels: t.labels, categories: t.categories, phases: t.phases, ops: t.ops, oom: t.oom };
  const arrays = fingerprint(t.event, t.bytes, t.allocated, t.reserved, t.category, t.label, t.layer, t.phase, t.op, t.alloc);
  const out = `${JSON.stringify(run.summary())}${JSON.stringify(head)}${t.count}:${arrays} ${columns(0, 1000000, 797)} ${columns(100, 150, 640)}`;
  const all = out + JSON.stringify(run.pool(event)) + JSON.stringify(run.ledger(event));
  run.close();
  return all;
};

/** The same as measured() in native.cpp. */
const measured = async (file, text, event) => {
  const recording = await openRecording();
  const bytes = readFileSync(file);
  const answer = (ask) => {
    try {
      return JSON.stringify(ask());
    } catch (error) {
      if (!(error instanceof RequestError)) throw error;
      return JSON.stringify({ problems: error.problems });
    }
  };
  for (let at = 0; at < bytes.length && recording.feed(bytes.subarray(at, at + 1000)); at += 1000);
  const summary = answer(() => recording.finish());
  if (summary.startsWith('{"problems"')) return summary;
  const columns = (begin, end, width) => {
    const c = recording.columns(begin, end, width);
    return `${c.width}:${fingerprint(c.allocated, c.reserved, c.predictedAllocated, c.predictedReserved, c.event)}`;
  };
  const comparison = answer(() => recording.compare(text));
  return `${summary}${comparison}${columns(0, 1000000, 797)} ${columns(100, 150, 640)}${JSON.stringify(recording.at(event))}`;
};

const core = await loadCore();
const native = spawn(process.argv[2], { stdio: ['pipe', 'pipe', 'inherit'] });
const lines = createInterface({ input: native.stdout })[Symbol.asyncIterator]();
const counts = {};
let different = 0;
let bytes = 0;
for (const { name: title, ...asked } of questions(core.presets)) {
  native.stdin.write(`${JSON.stringify(asked)}\n`);
  const ours = asked.question === QUESTION.measured ? await measured(asked.file, asked.text, asked.event) : asked.question === QUESTION.drawing ? drawing(core, asked.text, asked.event) : core.askText(name[asked.question], asked.text, asked.event ?? -1).text;
  const { value: theirs, done } = await lines.next();
  if (done) throw new Error(`the native side ended at: ${title}`);
  counts[name[asked.question]] = (counts[name[asked.question]] ?? 0) + 1;
  bytes += ours.length;
  if (ours === theirs) continue;
  let at = 0;
  while (at < ours.length && ours[at] === theirs[at]) ++at;
  const from = Math.max(0, at - 60);
  if (++different <= 5) console.error(`${title}: differs at ${at}\n  native: …${theirs.slice(from, at + 60)}\n  module: …${ours.slice(from, at + 60)}`);
}
native.stdin.end();
const list = Object.entries(counts).map(([key, count]) => `${count} ${key}`);
const total = Object.values(counts).reduce((sum, count) => sum + count, 0);
console.log(`parity: ${total - different} of ${total} answers equal byte for byte (${(bytes / 1e6).toFixed(1)} MB: ${list.join(', ')})`);
process.exit(different === 0 ? 0 : 1);
