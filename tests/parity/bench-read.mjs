// node bench-read.mjs NATIVE FILE...: how fast snapshots are read, natively and by the module, in megabytes of the unpacked file
// to a second of the processor's (other work beside it does not count).
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { openRecording } from '../../web/dist/snapshot.js';

const PIECE = 256 * 1024;
const [native, ...files] = process.argv.slice(2);
for (const file of files) {
  const bytes = readFileSync(file);
  const speed = (seconds) => `${(bytes.length / 1e6 / seconds).toFixed(0)} MB/s`;
  const theirs = JSON.parse(execFileSync(native, ['read', file], { encoding: 'utf8' }));
  let best = Infinity;
  let [read, compared] = [0, ''];
  for (let i = 0; i < 3; ++i) {
    const recording = await openRecording();
    const start = process.cpuUsage();
    for (let at = 0; at < bytes.length && recording.feed(bytes.subarray(at, at + PIECE)); at += PIECE);
    const { user, system } = process.cpuUsage(start);
    best = Math.min(best, (user + system) / 1e6);
    const whole = performance.now();
    read = recording.finish().events;
    const moment = performance.now();
    recording.at(read - 1);
    compared = `told in ${(moment - whole).toFixed(0)} ms, a moment in ${(performance.now() - moment).toFixed(0)} ms`;
  }
  console.log(`${file}: ${(bytes.length / 1e6).toFixed(1)} MB, ${theirs.events} events; native ${speed(theirs.seconds)}, module ${speed(best)}; ${read} events ${compared}`);
}
