// Timings, printed with the machine's load. They judge nothing: a shared machine is no stopwatch.
import { loadavg } from 'node:os';
import { fresh, post, put, tag, verdict } from './lib.mjs';

const sorted = (list) => list.slice().sort((a, b) => a - b);
const median = (list) => sorted(list)[Math.floor(list.length / 2)];
const p95 = (list) => sorted(list)[Math.min(list.length - 1, Math.ceil(0.95 * list.length) - 1)];
const ms = (n) => `${n.toFixed(1)} ms`;

async function throttle(page, rate) {
  const client = await page.context().newCDPSession(page);
  await client.send('Emulation.setCPUThrottlingRate', { rate });
}

async function firstVerdict(env, rate, times = 7) {
  const script = '<script>addEventListener("wf-report",()=>{globalThis.first??=performance.now()-globalThis.began},true);globalThis.began=performance.now()</script><script src="what-fits.js"></script>';
  const name = await put('first.html', post(tag(), { script }));
  const list = [];
  for (let i = 0; i < times; ++i) {
    const page = await fresh(env);
    await throttle(page, rate);
    await page.goto(`${env.url}/${name}`);
    await page.waitForFunction(() => globalThis.first !== undefined, null, { timeout: 30000 });
    list.push(await page.evaluate(() => globalThis.first));
    await page.done();
  }
  return list;
}

async function frames(env, rate, act) {
  const page = await fresh(env);
  await page.goto(`${env.url}/calculator.html`);
  await verdict(page, 0, 60000);
  await page.waitForTimeout(3000); // sweep and advice are done
  await throttle(page, rate);
  await page.evaluate(() => {
    globalThis.gaps = [];
    globalThis.long = [];
    new PerformanceObserver((l) => l.getEntries().forEach((e) => globalThis.long.push(e.duration))).observe({ type: 'longtask' });
    let last = performance.now();
    const tick = (now) => { globalThis.gaps.push(now - last); last = now; requestAnimationFrame(tick); };
    requestAnimationFrame(tick);
  });
  await act(page);
  const got = await page.evaluate(() => ({ gaps: globalThis.gaps.slice(2), long: globalThis.long }));
  await page.done();
  return got;
}

const drag = (id) => async (page) => {
  const slider = page.getByTestId(id);
  await slider.scrollIntoViewIfNeeded();
  const box = await slider.boundingBox();
  const y = box.y + box.height / 2;
  await page.mouse.move(box.x + box.width * 0.2, y);
  await page.mouse.down();
  for (let i = 0; i < 120; ++i) await page.mouse.move(box.x + box.width * (0.5 + 0.4 * Math.sin(i / 12)), y);
  await page.mouse.up();
};

export async function timings(env) {
  const say = (what, text) => console.log(`time ${what}: ${text} (load ${loadavg()[0].toFixed(1)})`);
  for (const rate of [1, 4]) say(`first verdict, ${rate}x`, `median ${ms(median(await firstVerdict(env, rate)))}, aim ${rate === 1 ? 150 : 700}`);
  for (const rate of [1, 4]) {
    const { gaps, long } = await frames(env, rate, drag('slider-batch'));
    say(`drag of the batch, full page, ${rate}x`, `frames: median ${ms(median(gaps))}, 95th ${ms(p95(gaps))}, aim ${rate === 1 ? 20 : 50}; longest task ${ms(Math.max(0, ...long))}`);
  }
  const cursor = await frames(env, 1, drag('cursor'));
  say('drag of the cursor', `frames: median ${ms(median(cursor.gaps))}, 95th ${ms(p95(cursor.gaps))}`);
  const sweep = await frames(env, 1, async (page) => {
    const box = page.getByTestId('field-optimizer');
    await box.selectOption('sgd');
    await page.waitForTimeout(6000);
  });
  say('sweep and advice after a change', `longest task ${ms(Math.max(0, ...sweep.long))}, aim 50; frames 95th ${ms(p95(sweep.gaps))}`);
  const page = await fresh(env, { width: 412 });
  await page.goto(`${env.url}/index.html`);
  const cls = await page.evaluate(() => new Promise((resolve) => {
    let sum = 0;
    new PerformanceObserver((l) => l.getEntries().forEach((e) => { if (!e.hadRecentInput) sum += e.value; })).observe({ type: 'layout-shift', buffered: true });
    setTimeout(() => resolve(sum), 2500);
  }));
  say('layout shift of the post at 412 px', cls.toFixed(3));
  await page.done();
}
