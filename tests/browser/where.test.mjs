// Where the element must run, each as a page of its own.
import { copyFile, readdir } from 'node:fs/promises';
import { execFileSync } from 'node:child_process';
import { accessible, equal, fresh, ok, post, put, root, tag, test, verdict, work } from './lib.mjs';

const answers = async (page, what) => {
  const said = await verdict(page);
  equal([said.state, said.largest], ['fits', 20], what);
  return said;
};

test('where: same origin', async (env) => {
  const page = await fresh(env);
  await page.goto(`${env.url}/${await put('same.html', post(tag()))}`);
  await answers(page, 'same origin');
  equal([...new Set(page.complaints)], [], 'complaints');
  await page.done();
});

test('where: opened from disk, file://', async (env) => {
  const page = await fresh(env, { offline: true });
  await put('disk.html', post(tag()));
  await page.goto(`file://${work}disk.html`);
  await answers(page, 'file://');
  await page.goto(`file://${work}calculator.html`);
  await answers(page, 'calculator on file://');
  equal([...new Set(page.complaints)], [], 'complaints');
  await page.done();
});

test('where: the script on another origin, which sends no CORS header', async (env) => {
  const page = await fresh(env);
  await page.goto(`${env.url}/${await put('cross.html', post(tag(), { script: `<script src="${env.elsewhere}/what-fits.js" defer></script>` }))}`);
  await answers(page, 'cross origin');
  equal([...new Set(page.complaints)], [], 'complaints');
  await page.done();
});

test('where: a sandboxed iframe', async (env) => {
  const page = await fresh(env);
  await put('inner.html', post(`${tag('show="verdict,bar,export"')}`));
  await page.goto(`${env.url}/${await put('sandbox.html', '<!doctype html><html lang="en"><title>Host</title><body><iframe title="calculator" sandbox="allow-scripts" src="inner.html" width="800" height="900"></iframe></body></html>')}`);
  const frame = page.frameLocator('iframe');
  await frame.getByTestId('state').waitFor({ timeout: 20000 });
  equal((await frame.getByTestId('state').innerText()).trim(), 'fits', 'state');
  await page.done();
});

test('where: embed.html in an iframe says its height to its host', async (env) => {
  const page = await fresh(env);
  await page.goto(`${env.url}/${await put('host.html', post('<iframe title="calculator" src="embed.html?show=verdict,bar#v=1&model=gpt2-from-scratch&batch=21&seq-len=1024" width="100%" height="200"></iframe>', { script: '<script src="embed-host.js"></script>' }))}`);
  const frame = page.frameLocator('iframe');
  await frame.getByTestId('state').waitFor({ timeout: 20000 });
  await page.waitForTimeout(800);
  equal((await frame.getByTestId('state').innerText()).trim(), 'out of memory', 'state from the fragment');
  const height = await page.locator('iframe').evaluate((f) => f.getBoundingClientRect().height);
  const inside = await page.frames()[1].evaluate(() => document.querySelector('main').getBoundingClientRect().height);
  ok(Math.abs(height - inside) <= 8, `the frame has ${height} px, its content ${inside}`);
  await page.done();
});

test('where: a strict policy without inline anything', async (env) => {
  const page = await fresh(env);
  await page.addInitScript(() => { globalThis.refusals = []; document.addEventListener('securitypolicyviolation', (e) => globalThis.refusals.push(`${e.violatedDirective} ${e.sourceFile ?? ''}:${e.lineNumber}`)); });
  await page.goto(`${env.url}/${await put('strict.html', post(tag('show="verdict,bar,mountain,controls,sweep,ledger,advice,segments,import,export"')))}`);
  await answers(page, 'strict policy');
  await page.waitForTimeout(1500);
  equal(await page.evaluate(() => [...new Set(globalThis.refusals)]), [], 'refusals of the policy');
  await page.done();
});

test('where: three on a page, the script twice', async (env) => {
  const page = await fresh(env);
  await page.addInitScript(() => {
    globalThis.instances = 0;
    const original = WebAssembly.instantiate;
    // The small module that unpacks the core is none.
    WebAssembly.instantiate = function (module, imports) {
      if (WebAssembly.Module.exports(module).some((e) => e.name === 'wf_abi')) globalThis.instances += 1;
      return original.call(this, module, imports);
    };
  });
  await page.goto(`${env.url}/${await put('three.html', post(`${tag()}<p>Between.</p>${tag('batch="21"').replace('batch="8"', '')}<p>Between.</p>${tag('seq-len="512"').replace('seq-len="1024"', '')}`, { script: '<script src="what-fits.js" defer></script><script src="what-fits.js" defer></script>' }))}`);
  const said = [await verdict(page, 0), await verdict(page, 1), await verdict(page, 2)];
  equal(said.map((s) => [s.state, s.largest]), [['fits', 20], ['out of memory', 20], ['fits', 48]], 'three answers');
  const box = page.locator('what-fits').nth(0).getByTestId('field-batch');
  await box.fill('4');
  await box.press('Enter');
  await page.waitForTimeout(300);
  equal((await page.locator('what-fits').nth(1).getByTestId('state').innerText()).trim(), 'out of memory', 'the second keeps its state');
  equal(await page.evaluate(() => location.hash), '', 'an embedded element left the address alone');
  equal(await page.evaluate(() => globalThis.instances), 1, 'instances of the core');
  equal([...new Set(page.complaints)], [], 'complaints');
  await accessible(page, 'three');
  await page.done();
});

test("where: JavaScript off, the author's sentence and picture stay", async (env) => {
  const page = await fresh(env, { javaScriptEnabled: false });
  await page.goto(`${env.url}/${await put('plain.html', post(tag('', '<p>The author says: 16.65 GiB.</p><img src="icon.svg" alt="A mountain" width="64" height="64">')))}`);
  ok(await page.getByText('The author says').isVisible(), 'the sentence');
  ok(await page.getByRole('img', { name: 'A mountain' }).isVisible(), 'the picture');
  await page.done();
});

test('where: WebAssembly off, a named reason, the sentence stays, axe finds nothing', async (env) => {
  for (const [name, prepare] of [['off.html', (p) => p.addInitScript(() => { delete globalThis.WebAssembly; })], ['forbids.html', () => {}]]) {
    for (const scheme of ['light', 'dark']) {
      const page = await fresh(env, { scheme });
      await prepare(page);
      await page.goto(`${env.url}/${await put(name, post(tag()))}`);
      const said = page.getByTestId('unavailable');
      await said.waitFor({ timeout: 10000 });
      ok((name === 'off.html' ? /turned off/ : /Content-Security-Policy/).test(await said.innerText()), await said.innerText());
      ok(await page.getByText('The author says').isVisible(), 'the sentence is hidden');
      await accessible(page, `${name} ${scheme}`);
      await page.done();
    }
  }
});

test('where: posts written by Pandoc, kramdown and Hugo', async (env) => {
  const out = `${work}rendered/`;
  const lines = execFileSync(`${root}packaging/tests/render`, [out], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] }).trim();
  await copyFile(`${work}what-fits.js`, `${out}what-fits.js`);
  const done = [];
  for (const name of (await readdir(out)).filter((n) => /^(quarto|raw|kramdown|hugo)\.html$/.test(n))) {
    const page = await fresh(env);
    await page.goto(`${env.url}/rendered/${name}`);
    await answers(page, name);
    done.push(name);
    await page.done();
  }
  equal(done.length, 4, 'renderers');
  return `${lines.split('\n').at(-1)} in text; ${done.join(' ')} opened`;
});
