// A smoke test in other engines, without a driver: the browser opens one page, the page uses the element and says what it saw to
// the server that it came from. `node engines.mjs NAME COMMAND [ARGUMENT...]`; the address is appended to the command.
import { spawn } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { loadCore } from '../../web/dist/core.js';

const LIMIT_MS = 120_000;
const dist = fileURLToPath(new URL('../../site/dist/', import.meta.url));

/** Runs in the page. */
const script = `
const said = { errors: [] };
addEventListener('error', (e) => said.errors.push(String(e.message)));
addEventListener('unhandledrejection', (e) => said.errors.push(String(e.reason)));
const element = document.querySelector('what-fits');
const until = (ready) => new Promise((resolve) => { const look = () => { const found = ready(); found ? resolve(found) : setTimeout(look, 50); }; look(); });
const part = (id) => element.shadowRoot.querySelector('[data-testid=' + id + ']');
const text = (id) => part(id)?.textContent.trim();
const run = async () => {
  await until(() => /^\\d+$/.test(text('largest-batch') ?? ''));
  said.first = { state: text('state'), largest: text('largest-batch'), allocated: element.report.peak.allocated };
  await until(() => part('mountain')?.querySelectorAll('path').length > 5);
  said.areas = [...part('mountain').querySelectorAll('.m-area')].filter((path) => path.getAttribute('d')).length;
  const box = part('field-batch');
  box.value = '21';
  box.dispatchEvent(new Event('change', { bubbles: true }));
  await until(() => element.value.batch === 21 && text('state') === 'out of memory');
  said.second = { state: text('state'), binds: text('bound')?.includes('reserved') };
  const slider = part('cursor');
  slider.value = '300';
  slider.dispatchEvent(new Event('input', { bubbles: true }));
  said.event = /&event=\\d+$/.test(element.fragment);
  said.wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
};
run().catch((e) => said.errors.push(String(e))).finally(() => fetch('/said', { method: 'POST', body: JSON.stringify(said) }));
`;
const page = `<!doctype html><html lang="en"><meta charset="utf-8"><title>Smoke</title><script src="what-fits.js" defer></script>
<body><what-fits model="gpt2-from-scratch" batch="8" seq-len="1024" show="verdict,bar,mountain,controls"><p>Fallback.</p></what-fits>
<script src="smoke.js" defer></script></body></html>`;

const [name, command, ...words] = process.argv.slice(2);
let heard;
const saying = new Promise((resolve) => { heard = resolve; });
const server = createServer(async (request, response) => {
  const answer = (type, body) => response.writeHead(200, { 'content-type': type }).end(body);
  if (request.url === '/said') {
    let body = '';
    for await (const piece of request) body += piece;
    answer('text/plain', 'heard');
    heard(JSON.parse(body));
  } else if (request.url === '/what-fits.js') answer('text/javascript', await readFile(`${dist}what-fits.js`));
  else if (request.url === '/smoke.js') answer('text/javascript', script);
  else if (request.url === '/') answer('text/html', page);
  else response.writeHead(404).end();
});
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));

const home = await mkdtemp(join(tmpdir(), 'what-fits-smoke-'));
await writeFile(join(home, 'user.js'), 'user_pref("datareporting.policy.dataSubmissionEnabled", false);\nuser_pref("browser.aboutwelcome.enabled", false);\n');
const browser = spawn(command, [...words.map((word) => word.replace('PROFILE', home)), `http://127.0.0.1:${server.address().port}/`], {
  stdio: 'ignore', detached: true, env: { ...process.env, HOME: home },
});
const failed = new Promise((_, reject) => browser.once('error', reject));
const late = new Promise((_, reject) => setTimeout(() => reject(new Error(`nothing was heard within ${LIMIT_MS / 1000} s`)), LIMIT_MS));
try {
  const said = await Promise.race([saying, failed, late]);
  const core = await loadCore();
  const request = { model: 'gpt2-from-scratch', batch: 8, seq_len: 1024 };
  const first = { state: 'fits', largest: String(core.fit(request).largest_batch), allocated: core.estimate(request).peak.allocated };
  const want = { errors: [], first, areas: 8, second: { state: 'out of memory', binds: true }, event: true, wide: 0 };
  const wrong = Object.keys(want).filter((key) => JSON.stringify(said[key]) !== JSON.stringify(want[key]));
  console.log(wrong.length === 0 ? `ok   ${name}: verdict, mountain, a change, the cursor` : `FAIL ${name}: ${wrong.map((key) => `${key} is ${JSON.stringify(said[key])}, not ${JSON.stringify(want[key])}`).join('; ')}`);
  process.exitCode = wrong.length === 0 ? 0 : 1;
} catch (error) {
  console.log(`FAIL ${name}: ${error.message}`);
  process.exitCode = 1;
} finally {
  try { process.kill(-browser.pid); } catch { /* it has ended by itself */ }
  server.close();
  server.closeAllConnections();
  await rm(home, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
}
process.exit();
