// The site's pages: complete, self-contained, readable by everybody, with and without scripts.
import { gzipSync } from 'node:zlib';
import { readFile, readdir } from 'node:fs/promises';
import { accessible, dist, equal, fresh, ok, overflow, shots, test, verdict } from './lib.mjs';

/** Starts every element of the page. */
async function all(page) {
  const n = await page.locator('what-fits').count();
  for (let i = 0; i < n; ++i) await verdict(page, i, 60000);
  await page.evaluate(() => scrollTo(0, 0));
}

/** What reaches farthest to the right, for the message. */
const widest = (page) => page.evaluate(() => {
  let most = { right: 0, name: '' };
  const walk = (node, path) => {
    for (const e of node.children) {
      const name = `${path}>${e.localName}${e.className && typeof e.className === 'string' ? `.${e.className.split(' ')[0]}` : ''}`;
      const { right, width } = e.getBoundingClientRect();
      if (width > 0 && right > most.right + 0.5 && !e.closest('.scroll')) most = { right: Math.round(right), name };
      walk(e, name);
      if (e.shadowRoot) walk(e.shadowRoot, `${name}#`);
    }
  };
  walk(document.body, '');
  return `${most.name.split('>').slice(-5).join('>')} ends at ${most.right}`;
});

const pages = ['index', 'general', 'calculator', 'accuracy', 'method', 'embedding'];

test('the element has at most 200 KB gzip, the aim is 150', async () => {
  const size = gzipSync(await readFile(`${dist}what-fits.js`), { level: 9 }).length;
  ok(size <= 200 * 1024, `${size} bytes`);
  return `${(size / 1024).toFixed(1)} KB gzip${size > 150 * 1024 ? ', OVER THE AIM' : ''}`;
});

test('the standalone page: at most 6 requests and 250 KB, none to a third party', async (env) => {
  const page = await fresh(env);
  await page.goto(`${env.url}/calculator.html`);
  await verdict(page);
  await page.waitForTimeout(500);
  const names = page.requests.filter((url) => !url.startsWith('data:') && !url.startsWith('blob:'));
  let bytes = 0;
  for (const url of names) {
    ok(url.startsWith(env.url), `a request to ${url}`);
    bytes += gzipSync(await readFile(dist + (new URL(url).pathname.slice(1) || 'index.html'))).length;
  }
  ok(names.length <= 6, `${names.length} requests: ${names.join(' ')}`);
  ok(bytes <= 250 * 1024, `${bytes} bytes`);
  equal([...new Set(page.complaints)], [], 'complaints');
  await page.done();
  return `${names.length} requests, ${(bytes / 1024).toFixed(1)} KB gzip`;
});

test('no page asks anybody else for anything', async () => {
  for (const name of (await readdir(dist)).filter((n) => /\.(html|css)$/.test(n))) {
    const text = await readFile(dist + name, 'utf8');
    const loads = [...text.matchAll(/(?:src|href)="(https?:[^"]+)"|url\(\s*['"]?(https?:[^)]+)/g)].map((m) => m[1] ?? m[2]);
    const bad = name === 'accuracy.html' ? loads.filter((u) => !/^https:\/\/(github|huggingface|docs|arxiv)/.test(u)) : loads; // there: links to sources
    equal(bad, [], name);
  }
});

test('links between pages lead somewhere', async () => {
  for (const name of (await readdir(dist)).filter((n) => n.endsWith('.html'))) {
    const text = await readFile(dist + name, 'utf8');
    const have = new Set(await readdir(dist));
    for (const [, target] of text.matchAll(/(?:href|src)="([^"#?]+)[^"]*"/g)) {
      if (/^(https?:|mailto:|data:)/.test(target) || /&lt;/.test(target)) continue;
      ok(have.has(target), `${name} points at ${target}`);
    }
  }
});

for (const name of pages) {
  test(`${name}: axe finds nothing, light, dark, at 360 px`, async (env) => {
    let passes = 0;
    const page = await fresh(env);
    await page.goto(`${env.url}/${name}.html`);
    await all(page);
    for (const [width, scheme] of [[1200, 'light'], [1200, 'dark'], [360, 'dark'], [360, 'light']]) {
      await page.emulateMedia({ colorScheme: scheme });
      await page.setViewportSize({ width, height: 900 });
      await page.waitForTimeout(400);
      passes += await accessible(page, `${width} ${scheme}`);
      await page.screenshot({ path: `${shots}${name}-${width}-${scheme}.png` });
    }
    equal([...new Set(page.complaints)], [], 'complaints');
    await page.done();
    return `${passes} rules passed`;
  });

  test(`${name}: nothing scrolls sideways at 320 to 414 px and with text at 200 %`, async (env) => {
    const page = await fresh(env);
    await page.goto(`${env.url}/${name}.html`);
    await all(page);
    const found = [];
    for (const [width, large] of [[320, false], [360, false], [414, false], [360, true], [1200, true]]) {
      await page.setViewportSize({ width, height: 900 });
      await page.evaluate((size) => { document.documentElement.style.fontSize = size; }, large ? '200%' : '');
      await page.waitForTimeout(400);
      const over = await overflow(page);
      if (over > 0) found.push(`${over} px too wide at ${width} px${large ? ', text at 200 %' : ''}: ${await widest(page)}`);
    }
    equal(found, [], 'too wide');
    await page.done();
  });

  test(`${name}: without JavaScript the text and the pictures stay`, async (env) => {
    const page = await fresh(env, { javaScriptEnabled: false });
    await page.goto(`${env.url}/${name}.html`);
    ok(await page.locator('h1').isVisible(), 'no heading');
    for (const element of await page.locator('what-fits').all()) ok(await element.locator('p').first().isVisible(), 'a fallback is hidden');
    if (name === 'index') ok(await page.locator('.guess-card noscript strong').isVisible(), 'the answer is not told');
    await page.done();
  });
}

test('the post: the guess is compared, and a wrong one is refused in words', async (env) => {
  const page = await fresh(env);
  await page.goto(`${env.url}/index.html`);
  await page.fill('#guess-number', 'much');
  await page.click('.guess-form button');
  ok(await page.locator('#guess-error').isVisible(), 'no word about the wrong guess');
  await page.fill('#guess-number', '1.5');
  await page.click('.guess-form button');
  const said = await page.locator('.guess-answer').innerText();
  ok(/16\.65 GiB: 11 times your guess/.test(said), said);
  await page.locator('#guess-range').focus();
  await page.keyboard.press('ArrowRight');
  ok((await page.inputValue('#guess-number')) !== '1.5', 'the slider does not move the number');
  equal([...new Set(page.complaints)], [], 'complaints');
  await page.done();
});

test('the post and the widget agree', async (env) => {
  const page = await fresh(env);
  await page.goto(`${env.url}/index.html`);
  const text = await page.locator('article').innerText();
  const nth = await page.locator('what-fits').evaluateAll((all) => all.findIndex((e) => /verdict/.test(e.getAttribute('show'))));
  const said = await verdict(page, nth);
  const digits = said.allocated.replace(/[^\d.,]/g, '');
  ok(text.includes(`${digits.split('.')[0]} MiB at its peak`) || text.includes('17,054 MiB'), `the widget says ${said.allocated}`);
  equal(said.largest, 20, 'largest batch');
  await page.done();
});

test("the account's table follows its controls and reproduces printed terms", async (env) => {
  const page = await fresh(env);
  await page.goto(`${env.url}/general.html`);
  const row = page.locator('[data-account] tbody tr').filter({ hasText: '40 M' }).first();
  equal((await row.locator('td').nth(4).innerText()).trim(), '4.07 GB', '40 M at 2,048');
  await page.fill('#std-length', '512');
  ok(Number((await row.locator('td').nth(4).innerText()).split(' ')[0]) < 1.1, 'at 512');
  await page.fill('#std-batch', 'x');
  ok(await page.locator('[data-account] .error').first().isVisible(), 'no word about a wrong batch');
  ok(Number((await row.locator('td').nth(4).innerText()).split(' ')[0]) < 1.1, 'the last good state is gone');
  await page.done();
});

test('the theme button cycles and is kept', async (env) => {
  const page = await fresh(env);
  await page.goto(`${env.url}/method.html`);
  await page.click('.theme');
  await page.click('.theme');
  equal(await page.locator('html').getAttribute('data-theme'), 'dark', 'theme');
  await page.reload();
  equal(await page.locator('html').getAttribute('data-theme'), 'dark', 'theme after a reload');
  await page.done();
});
