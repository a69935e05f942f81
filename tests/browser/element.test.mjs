// The element's states and ways: links, wrong input, hostile input, keyboard, exports, a stranger's path.
import { readFile } from 'node:fs/promises';
import { accessible, equal, fresh, ok, post, put, shots, tag, test, verdict } from './lib.mjs';

const everything = 'show="verdict,bar,mountain,controls,sweep,ledger,advice,segments,import,export"';
const calculator = (env, fragment = '') => `${env.url}/calculator.html${fragment}`;

async function set(page, field, value) {
  const box = page.getByTestId(`field-${field}`);
  const kind = await box.evaluate((e) => (e.tagName === 'SELECT' ? 'select' : e.type));
  if (kind === 'select') await box.selectOption(value);
  else if (kind === 'checkbox') await box.setChecked(value);
  else { await box.fill(String(value)); await box.press('Enter'); }
  await page.waitForTimeout(60);
}
const fragment = (page) => page.locator('what-fits').evaluate((e) => e.fragment);
const openBoxes = (page) => page.evaluate(() => {
  const walk = (node) => { for (const e of node.querySelectorAll('*')) { if (e.tagName === 'DETAILS') e.open = true; if (e.shadowRoot) walk(e.shadowRoot); } };
  walk(document);
});

for (const [state, hash, views] of [
  ['fits', '#v=1&model=gpt2-from-scratch&batch=8&seq-len=1024', [[1200, 'light'], [1200, 'dark'], [360, 'dark'], [360, 'light']]],
  ['out of memory', '#v=1&model=gpt2-from-scratch&batch=21&seq-len=1024', [[1200, 'dark'], [360, 'light']]],
]) {
  test(`the full element, ${state}: axe finds nothing`, async (env) => {
    const page = await fresh(env);
    await page.goto(calculator(env, hash));
    equal((await verdict(page)).state, state, 'state');
    await openBoxes(page);
    await page.getByTestId('sweep').scrollIntoViewIfNeeded(); // it starts when it comes into view
    await page.locator('[data-testid=sweep][aria-busy=false] [data-state=oom]').first().waitFor({ timeout: 60000 });
    await page.getByTestId('segment-table').waitFor();
    for (const [width, scheme] of views) {
      await page.emulateMedia({ colorScheme: scheme });
      await page.setViewportSize({ width, height: 900 });
      await page.waitForTimeout(300);
      await accessible(page, `${width} ${scheme}`);
      await page.screenshot({ path: `${shots}full-${state.split(' ')[0]}-${width}-${scheme}.png`, fullPage: true });
    }
    equal([...new Set(page.complaints)], [], 'complaints');
    await page.done();
  });
}

test('wrong input: said by name, the last answer stays, axe finds nothing', async (env) => {
  for (const [width, scheme] of [[1200, 'light'], [360, 'dark']]) {
    const page = await fresh(env, { width, scheme });
    await page.goto(calculator(env));
    const before = await verdict(page);
    for (const wrong of ['0', '-3', 'many', '1e400', '9'.repeat(400)]) {
      await set(page, 'batch', wrong);
      await page.getByTestId('wrong-batch').waitFor({ timeout: 3000 });
      ok((await page.getByTestId('wrong-batch').innerText()).length > 10, `no words for ${wrong}`);
      equal(await page.getByTestId('peak-allocated').innerText(), before.allocated, `the answer after ${wrong.slice(0, 9)}`);
      equal((await page.getByTestId('field-batch').inputValue()).slice(0, 9), wrong.slice(0, 9), 'what was typed');
    }
    ok(await page.getByTestId('stale').isVisible(), 'the old answer is not called old');
    await accessible(page, `wrong input, ${width} ${scheme}`);
    await set(page, 'batch', '4');
    equal(await page.getByTestId('wrong-batch').count(), 0, 'messages after a good value');
    equal([...new Set(page.complaints)], [], 'complaints');
    await page.done();
  }
});

test('links: every control survives the way through the address', async (env) => {
  const page = await fresh(env);
  await page.goto(calculator(env));
  await verdict(page);
  await openBoxes(page);
  const changes = { batch: 6, 'seq-len': 512, precision: 'amp-bf16', attention: 'sdpa', optimizer: 'sgd-momentum', checkpointing: 'full', 'grad-accumulation': 2, 'clip-grad-norm': true, 'zero-grad': 'zero-fill', 'allocator.expandable-segments': true, steps: 4, device: 'rtx-4090', 'script.warmup-matmul': 16, 'model.n-layer': 6, 'model.n-embd': 512, 'model.n-head': 8, 'model.vocab-size': 32000 };
  const lost = [];
  for (const [field, value] of Object.entries(changes)) {
    if (!(await page.getByTestId(`field-${field}`).count())) { lost.push(field); continue; }
    await set(page, field, value);
    await openBoxes(page);
  }
  equal(lost, [], 'controls that are missing');
  await page.waitForTimeout(900);
  const [hash, wrote] = [await page.evaluate(() => location.hash), await fragment(page)];
  equal(hash, wrote, 'the address and the element');
  const request = await page.locator('what-fits').evaluate((e) => e.request);
  const other = await fresh(env);
  await other.goto(calculator(env, hash));
  await verdict(other);
  equal(await fragment(other), hash, 'the link read and written again');
  equal(await other.locator('what-fits').evaluate((e) => e.request), request, 'the request');
  equal(await other.getByTestId('notes').count(), 0, 'notes about the link');
  await Promise.all([page.done(), other.done()]);
  return `${hash.length} characters for ${Object.keys(changes).length} controls`;
});

test('links: unknown keys are named, hostile ones are text', async (env) => {
  const nasty = ['#v=1&model=gpt2-from-scratch&colour=red', '#v=1&model=%3Cimg%20src%3Dx%20onerror%3DglobalThis.hit%3D1%3E', '#v=1&batch=%3Cscript%3EglobalThis.hit%3D1%3C/script%3E',
    `#v=1&batch=${'9'.repeat(400)}`, `#v=1&model=${encodeURIComponent(`{"model_type":${'['.repeat(300)}`)}`, '#v=1&%E0%A4%A=1', '#v=99&batch=3', `#v=1&x=${'a'.repeat(9000)}`,
    '#v=1&constructor=1&__proto__=2&model.__proto__=3', '#v=1&model=javascript:alert(1)'];
  for (const hash of nasty) {
    const page = await fresh(env);
    page.on('dialog', (d) => { page.complaints.push(`dialog ${d.message()}`); void d.dismiss(); });
    await page.goto(calculator(env, hash));
    await page.waitForTimeout(900);
    equal(await page.evaluate(() => [globalThis.hit ?? null, ({}).x ?? null, Object.keys(Object.prototype).length]), [null, null, 0], `executed by ${hash.slice(0, 40)}`);
    const said = (await page.getByTestId('notes').count()) + (await page.getByTestId('problems').count()) + (await page.locator('[data-testid^=wrong-]').count());
    ok(said > 0, `nothing is said about ${hash.slice(0, 60)}`);
    equal([...new Set(page.complaints)], [], `complaints about ${hash.slice(0, 40)}`);
    await page.done();
  }
  return `${nasty.length} links`;
});

test('a link carries the event looked at, a piece of the bar filters the ledger, Start over takes all back', async (env) => {
  const page = await fresh(env);
  await page.goto(calculator(env));
  await verdict(page);
  const first = await fragment(page);
  await page.getByTestId('cursor').fill('300');
  const link = await fragment(page);
  ok(/&event=\d+$/.test(link), `the link: ${link}`);
  const said = await page.getByTestId('readout').innerText();
  const other = await fresh(env);
  await other.goto(calculator(env, link));
  await verdict(other);
  equal(await other.getByTestId('readout').innerText(), said, 'the event elsewhere');
  const caption = () => page.getByTestId('ledger').locator('caption').innerText();
  const all = await caption();
  await page.locator('what-fits .bar-piece').nth(3).click();
  await page.waitForTimeout(600);
  ok((await caption()) !== all && (await page.getByTestId('ledger-category').inputValue()) !== '', 'the ledger is not filtered');
  equal(await page.getByTestId('reset').count(), 0, 'Start over before anything was changed');
  await set(page, 'batch', 12);
  await page.getByTestId('reset').click();
  await page.waitForTimeout(300);
  equal(await fragment(page), first, 'the state after Start over');
  equal([...page.complaints, ...other.complaints], [], 'complaints');
  await Promise.all([page.done(), other.done()]);
});

test('what stands for itself: controls by name alone, and an engine that draws no step', async (env) => {
  const page = await fresh(env);
  await page.goto(`${env.url}/${await put('alone.html', post('<what-fits show="verdict" controls="batch"><p>Fallback</p></what-fits><what-fits engine="formula" show="all"><p>Fallback</p></what-fits>'))}`);
  await verdict(page);
  ok(await page.locator('what-fits').first().getByTestId('field-batch').isVisible(), 'the control named is not there');
  await verdict(page, 1);
  equal(await page.locator('what-fits').nth(1).evaluate((e) => e.report.accuracy.basis), 'formula', 'basis');
  equal([...new Set(page.complaints)], [], 'complaints');
  await page.done();
});

const paste = async (page, text) => {
  await page.locator('what-fits textarea').first().fill(text);
  await page.getByTestId('import-read').click();
  await page.waitForTimeout(150);
};
const config = { model_type: 'gpt2-from-scratch', n_layer: 24, n_embd: 1024, n_head: 16, vocab_size: 50257, n_positions: 1024 };

test("imports: a config.json of Hugging Face's, with keys that change nothing; its dimensions are controls", async (env) => {
  const page = await fresh(env);
  await page.goto(calculator(env));
  await verdict(page);
  await paste(page, JSON.stringify({
    architectures: ['LlamaForCausalLM'], model_type: 'llama', hidden_size: 576, intermediate_size: 1536, num_hidden_layers: 30, num_attention_heads: 9,
    num_key_value_heads: 3, vocab_size: 49152, max_position_embeddings: 2048, rms_norm_eps: 1e-5, tie_word_embeddings: true, torch_dtype: 'bfloat16',
  }));
  const said = await page.getByTestId('import-said').innerText();
  ok(/Taken.*Read: .*hidden_size.*num_key_value_heads/s.test(said), said);
  const mine = await verdict(page, 0, 60000);
  ok(mine.largest > 0, JSON.stringify(mine));
  await openBoxes(page);
  equal(await page.getByTestId('field-model.hidden-size').inputValue(), '576', 'the width');
  equal(await page.getByTestId('field-model.n-embd').count(), 0, "another family's width");
  await set(page, 'model.num-hidden-layers', 6);
  const less = await verdict(page, 0, 60000);
  ok(less.largest > mine.largest, `${less.largest} with 6 layers, ${mine.largest} with 30`);
  const other = await fresh(env);
  await other.goto(calculator(env, await fragment(page)));
  equal(await verdict(other, 0, 60000), less, 'the same elsewhere');
  equal([...page.complaints, ...other.complaints], [], 'complaints');
  await Promise.all([page.done(), other.done()]);
});

test('imports: hostile configs are refused in words and change nothing', async (env) => {
  const page = await fresh(env);
  await page.goto(calculator(env));
  await verdict(page);
  const before = await fragment(page);
  const nasty = ['', 'not json', '[]', '{}', '{"model_type":"<img src=x onerror=globalThis.hit=1>"}', JSON.stringify({ ...config, n_layer: '<script>' }), `{"model_type":"gpt2-from-scratch","n_layer":${'9'.repeat(400)}}`,
    '['.repeat(5000), `{"a":`.repeat(2000), JSON.stringify({ ...config, n_layer: 1e308 }), JSON.stringify({ ...config, n_layer: -1 }), '{"__proto__":{"x":1},"model_type":"toString"}', `{"model_type":"gpt2-from-scratch","x":"${'a'.repeat(10_000_000)}"}`];
  for (const text of nasty) {
    await paste(page, text);
    ok((await page.getByTestId('import-refused').count()) > 0 && (await page.getByTestId('import-refused').innerText()).length > 10, `no words about ${text.slice(0, 50)}`);
    equal(await fragment(page), before, `the state after ${text.slice(0, 50)}`);
  }
  equal(await page.evaluate(() => [globalThis.hit ?? null, ({}).x ?? null]), [null, null], 'executed');
  equal([...new Set(page.complaints)], [], 'complaints');
  await page.done();
  return `${nasty.length} texts`;
});

test("a stranger's path: open, import a config, find the batch, apply advice, share, open elsewhere", async (env) => {
  const page = await fresh(env, { permissions: ['clipboard-read', 'clipboard-write'] });
  await page.goto(calculator(env));
  await verdict(page);
  await paste(page, JSON.stringify(config));
  const mine = await verdict(page);
  ok(mine.largest > 0 && mine.largest < 20, `largest batch of the larger model: ${mine.largest}`);
  await set(page, 'batch', mine.largest + 1);
  const over = await verdict(page);
  equal([over.state, over.largest], ['out of memory', mine.largest], 'one more');
  const apply = page.locator('what-fits [data-key=attention]').getByTestId('apply');
  await apply.waitFor({ timeout: 60000 });
  await apply.click();
  const after = await verdict(page, 0, 60000);
  ok(/^fits/.test(after.state) && after.largest > mine.largest, `after the advice: ${JSON.stringify(after)}`);
  ok(await page.getByTestId('undo').isVisible(), 'nothing to undo it with');
  await page.getByTestId('copy-link').click();
  await page.waitForTimeout(200);
  const link = await page.evaluate(() => navigator.clipboard.readText());
  ok(/#v=1&/.test(link), `the link: ${link}`);
  const other = await fresh(env);
  await other.goto(link);
  equal(await verdict(other), after, 'the same answer elsewhere');
  equal([...page.complaints, ...other.complaints], [], 'complaints');
  await Promise.all([page.done(), other.done()]);
  return `batch ${mine.largest}, with fused attention ${after.largest}; link of ${link.length} characters`;
});

test('keyboard alone: batch, advice, the mountain, copy, and out again', async (env) => {
  const page = await fresh(env);
  await page.goto(calculator(env));
  await verdict(page);
  await page.getByTestId('apply').first().waitFor({ timeout: 60000 });
  await page.evaluate(() => document.querySelector('footer').setAttribute('tabindex', '-1'));
  const where = () => page.evaluate(() => {
    let at = document.activeElement;
    while (at?.shadowRoot?.activeElement) at = at.shadowRoot.activeElement;
    const style = getComputedStyle(at);
    const ring = style.outlineStyle !== 'none' || style.boxShadow !== 'none';
    return { id: at.dataset?.testid ?? at.getAttribute?.('href') ?? at.tagName.toLowerCase(), ring, inside: document.activeElement?.tagName === 'WHAT-FITS' };
  });
  const seen = [];
  let entered = false;
  let left = false;
  const acted = new Set();
  for (let i = 0; i < 400 && !left; ++i) {
    await page.keyboard.press('Tab');
    const at = await where();
    if (at.inside) { entered = true; seen.push(at.id); ok(at.ring, `no visible focus on ${at.id}`); } else if (entered) left = true;
    if (acted.has(at.id)) continue;
    acted.add(at.id);
    if (at.id === 'slider-batch') { await page.keyboard.press('PageUp'); await page.keyboard.press('ArrowRight'); }
    if (at.id === 'cursor') { await page.keyboard.press('End'); await page.keyboard.press('Home'); await page.keyboard.press('PageUp'); }
    if (at.id === 'to-peak') await page.keyboard.press('Enter');
    if (at.id === 'play') { await page.keyboard.press('Space'); await page.waitForTimeout(250); await page.keyboard.press('Space'); }
    if (at.id === 'copy-link') await page.keyboard.press('Enter');
  }
  ok(left, 'Tab does not leave the element');
  for (const id of ['slider-batch', 'field-batch', 'field-seq-len', 'field-precision', 'cursor', 'to-peak', 'play', 'apply', 'copy-link', 'sort-bytes']) ok(seen.includes(id), `Tab does not reach ${id}`);
  ok(Number(await page.getByTestId('field-batch').inputValue()) > 8, 'the keys do not move the batch');
  equal([...new Set(page.complaints)], [], 'complaints');
  await page.done();
  return `${seen.length} stops`;
});

test('exports: JSON and CSV sum to the screen, SVG stands alone, PNG has pixels', async (env) => {
  const page = await fresh(env, { acceptDownloads: true });
  await page.goto(calculator(env));
  await verdict(page);
  const files = {};
  for (const kind of ['json', 'csv', 'svg', 'png']) {
    const [download] = await Promise.all([page.waitForEvent('download', { timeout: 8000 }), page.getByTestId(`export-${kind}`).click()]);
    files[kind] = await readFile(await download.path());
  }
  const report = JSON.parse(files.json);
  const allocated = (report.report ?? report).peak.allocated;
  const sum = files.csv.toString().trim().split('\n').slice(1).reduce((s, line) => s + Number(line.match(/,(\d+)(?=,[^,]*$|$)/)?.[1] ?? line.split(',').map(Number).filter((n) => n > 1000).at(-1) ?? 0), 0);
  const screen = await page.getByTestId('peak-allocated').innerText();
  ok((allocated / 2 ** 30).toFixed(2) === screen.replace(/[^\d.]/g, '').slice(0, 5), `JSON ${allocated}, screen ${screen}`);
  ok(Math.abs(sum - allocated) < 1, `CSV sums to ${sum}, JSON says ${allocated}`);
  const svg = files.svg.toString();
  ok(svg.startsWith('<svg') || svg.startsWith('<?xml'), 'SVG');
  ok(!/var\(|<script|on\w+=/.test(svg), 'the SVG refers to the page');
  equal(files.png.subarray(1, 4).toString(), 'PNG', 'PNG');
  ok(files.png.readUInt32BE(16) >= 800, `PNG width ${files.png.readUInt32BE(16)}`);
  await page.done();
});

test('units: one switch for all; wheel scrolls the page; keys are left alone', async (env) => {
  const page = await fresh(env);
  await page.goto(calculator(env));
  await verdict(page);
  await page.getByTestId('unit').getByRole('radio', { name: 'MiB' }).check();
  ok(/17,?0\d\d/.test(await page.getByTestId('peak-allocated').innerText()), await page.getByTestId('peak-allocated').innerText());
  await page.getByTestId('mountain').scrollIntoViewIfNeeded();
  await page.getByTestId('mountain').hover();
  const before = await page.evaluate(() => scrollY);
  await page.mouse.wheel(0, 240);
  await page.waitForTimeout(300);
  ok((await page.evaluate(() => scrollY)) !== before, 'the wheel does not move the page');
  await page.evaluate(() => document.body.focus());
  await page.keyboard.press('ArrowRight');
  equal([...new Set(page.complaints)], [], 'complaints');
  await page.done();
});

test('500 elements come and go', async (env) => {
  const page = await fresh(env);
  await page.goto(`${env.url}/${await put('churn.html', post(tag()))}`);
  await verdict(page);
  const client = await page.context().newCDPSession(page);
  const heap = async () => { await client.send('HeapProfiler.collectGarbage'); return (await client.send('Performance.getMetrics')).metrics; };
  await client.send('Performance.enable');
  const cycle = (n) => page.evaluate(async (count) => {
    for (let i = 0; i < count; ++i) {
      const e = document.createElement('what-fits');
      e.setAttribute('model', 'gpt2-from-scratch');
      document.querySelector('main').append(e);
      if (i % 50 === 0) await new Promise((r) => setTimeout(r, 60));
      e.remove();
    }
    await new Promise((r) => setTimeout(r, 400));
  }, n);
  await cycle(50);
  const of = (metrics, name) => metrics.find((m) => m.name === name).value;
  const a = await heap();
  await cycle(500);
  const b = await heap();
  const grown = (of(b, 'JSHeapUsedSize') - of(a, 'JSHeapUsedSize')) / 2 ** 20;
  ok(of(b, 'Nodes') - of(a, 'Nodes') < 200, `${of(b, 'Nodes') - of(a, 'Nodes')} nodes more`);
  ok(grown < 4, `${grown.toFixed(1)} MB more`);
  await page.done();
  return `${grown.toFixed(2)} MB and ${of(b, 'Nodes') - of(a, 'Nodes')} nodes more`;
});
