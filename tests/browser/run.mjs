// All browser tests, then the timings. `node run.mjs [WORD] [--no-timings]`: only tests whose name has the word.
import { open, run } from './lib.mjs';
import './pages.test.mjs';
import './where.test.mjs';
import './element.test.mjs';
import './measured.test.mjs';
import { timings } from './timing.mjs';

const only = process.argv.slice(2).find((a) => !a.startsWith('--'));
const env = await open();
try {
  const { passed, failed } = await run(env, { only });
  if (!only && !process.argv.includes('--no-timings')) await timings(env).catch((error) => console.log(`time: ${error.message.split('\n')[0]}`));
  console.log(`${passed} passed, ${failed} failed`);
  process.exitCode = failed > 0 || passed === 0 ? 1 : 0;
} finally {
  await env.close();
}
