// A person's own run: drop a snapshot of PyTorch, see it, lay the prediction over it, find the leak.
import { readFile } from 'node:fs/promises';
import { gunzipSync } from 'node:zlib';
import { accessible, equal, fresh, ok, overflow, post, put, root, shots, test, verdict } from './lib.mjs';

const folder = `${root}fixtures/torch/snapshots/`;
const request = JSON.parse(await readFile(`${folder}request.json`, 'utf8'));
const bytesOf = (name) => readFile(`${folder}${name}`);

/** An element with the request that the snapshots were made with: the calculator's, or a small one. */
async function open(env, whole = false) {
  const page = await fresh(env);
  const small = await put('own.html', post('<h2>Mine</h2><what-fits show="verdict,measured"><p>Fallback</p></what-fits>'));
  await page.goto(`${env.url}/${whole ? 'calculator.html' : small}`);
  await verdict(page);
  await page.locator('what-fits').evaluate((element, asked) => (element.request = asked), request);
  await page.waitForFunction((batch) => document.querySelector('what-fits').report.request.batch === batch, request.batch);
  page.requests.length = 0;
  return page;
}

/** Drops a file on the element, as a person does. */
async function drop(page, name, bytes) {
  await page.evaluate(([file, data]) => {
    const transfer = new DataTransfer();
    transfer.items.add(new File([Uint8Array.from(atob(data), (c) => c.charCodeAt(0))], file));
    const target = document.querySelector('what-fits');
    for (const type of ['dragover', 'drop']) target.dispatchEvent(new DragEvent(type, { bubbles: true, cancelable: true, dataTransfer: transfer }));
  }, [name, bytes.toString('base64')]);
}

const compared = (page) => page.waitForFunction(() => {
  const said = document.querySelector('what-fits').shadowRoot.querySelector('[data-testid=measured-verdict]');
  return said && said.textContent.trim() !== '' && !said.parentElement.classList.contains('pending');
}, undefined, { timeout: 30000 });
const text = (page, id) => page.getByTestId(id).innerText();

test('your own run: drop a snapshot, lay the prediction over it, find the leak by name and bytes', async (env) => {
  const page = await open(env, true);
  await drop(page, 'kept-logits.pickle.gz', await bytesOf('kept-logits.pickle.gz'));
  await compared(page);
  equal(await text(page, 'measured-verdict'), 'Not as predicted', 'verdict');
  // 4 steps keep their logits: 8 × 512 × 8,000 floats each, in a segment of 126 MiB.
  const rows = await page.getByTestId('measured-causes').locator('tbody tr').allInnerTexts();
  equal(rows.length, 1, 'causes');
  ok(/^logits.*alive after their step.*\.item\(\).*4 tensors, the first made at .*\.py:\d+.*\+504 MiB$/.test(rows[0].replace(/\s+/g, ' ').trim()), rows[0]);
  await page.getByTestId('measured-end').click();
  await page.waitForFunction(() => /kept|gpt2_from_scratch|\.py/.test(document.querySelector('what-fits').shadowRoot.querySelector('[data-testid=measured-holders] tbody')?.textContent ?? ''));
  await page.waitForTimeout(500);
  equal((await text(page, 'measured-over')).replace(/\s/g, ' '), '+504 MiB', 'over the prediction at the end');
  ok((await page.getByTestId('measured-holders').locator('tbody tr').count()) > 2, 'nobody holds anything');
  ok((await page.getByTestId('measured-segments').locator('rect').count()) > 4, 'no segments');
  equal(page.requests.filter((url) => !url.endsWith('/what-fits-snapshot.js') && !url.startsWith('data:')), [], 'requests while a file was read');
  ok(/never leaves/.test(await text(page, 'measured-drop')), 'the page does not say where the file goes');
  equal([...new Set(page.complaints)], [], 'complaints');
  await page.done();
});

test('your own run: a page that pins the first script pins the one that reads snapshots', async (env) => {
  const integrity = (await readFile(`${root}web/dist/what-fits.js.sri`, 'utf8')).trim();
  const pinned = await put('pinned.html', post('<h2>Mine</h2><what-fits show="verdict,measured"><p>Fallback</p></what-fits>', { script: `<script src="what-fits.js" defer crossorigin="anonymous" integrity="${integrity}"></script>` }));
  const page = await fresh(env);
  await page.goto(`${env.url}/${pinned}`);
  await verdict(page);
  await page.locator('what-fits').evaluate((element, asked) => (element.request = asked), request);
  await drop(page, 'clean.pickle.gz', await bytesOf('clean.pickle.gz'));
  await compared(page);
  equal(await text(page, 'measured-verdict'), 'As predicted', 'verdict');
  await page.done();
  // Another second script is not run, whatever it would define.
  const changed = await fresh(env);
  await changed.route('**/what-fits-snapshot.js', (route) => route.fulfill({ contentType: 'text/javascript', body: 'window.ran = true' }));
  await changed.goto(`${env.url}/${pinned}`);
  await verdict(changed);
  await drop(changed, 'clean.pickle.gz', await bytesOf('clean.pickle.gz'));
  await changed.waitForFunction(() => /second script/.test(document.querySelector('what-fits').shadowRoot.textContent), undefined, { timeout: 10000 });
  equal(await changed.evaluate(() => window.ran), undefined, 'a script with another hash ran');
  await changed.done();
});

test('your own run: a clean one is as predicted, and stops being so when the request changes', async (env) => {
  const page = await open(env);
  await page.getByTestId('measured-file').setInputFiles(`${folder}clean.pickle.gz`);
  await compared(page);
  equal(await text(page, 'measured-verdict'), 'As predicted', 'verdict');
  for (const counter of ['allocated', 'reserved']) equal(await text(page, `measured-${counter}`), await text(page, `predicted-${counter}`), counter);
  await page.locator('what-fits').evaluate((element, asked) => (element.request = { ...asked, batch: asked.batch * 2 }), request);
  await page.waitForFunction(() => document.querySelector('what-fits').shadowRoot.querySelector('[data-testid=measured-verdict]').textContent.trim() !== 'As predicted');
  await compared(page);
  ok(/Not/.test(await text(page, 'measured-verdict')), 'another batch is as predicted too');
  equal([...new Set(page.complaints)], [], 'complaints');
  await page.done();
});

test('your own run: running out of memory in words; axe finds nothing, keys reach all, 360 px hold it', async (env) => {
  const page = await open(env);
  await page.getByTestId('measured-file').setInputFiles(`${folder}oom.pickle.gz`);
  await compared(page);
  ok(/Memory ran out.*Bound by allocated/s.test(await text(page, 'measured-failures')), 'no words about the failure');
  const cursor = page.getByTestId('measured-cursor');
  await cursor.focus();
  const before = await cursor.getAttribute('aria-valuetext');
  await page.keyboard.press('Home');
  ok((await cursor.getAttribute('aria-valuetext')) !== before && /event 1 of/.test(await cursor.getAttribute('aria-valuetext')), 'Home does nothing');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter'); // "peak"
  equal(await cursor.getAttribute('aria-valuetext'), before, 'the peak by keyboard');
  await page.getByTestId('measured-zoom').press('Enter');
  for (const [width, scheme] of [[1200, 'light'], [360, 'dark'], [360, 'light'], [1200, 'dark']]) {
    await page.emulateMedia({ colorScheme: scheme });
    await page.setViewportSize({ width, height: 900 });
    await page.waitForTimeout(700);
    equal(await overflow(page), 0, `overflow at ${width}`);
    await page.locator('wf-measured').screenshot({ path: `${shots}measured-${width}-${scheme}.png` });
    await accessible(page, `measured, ${width} ${scheme}`);
  }
  equal([...new Set(page.complaints)], [], 'complaints');
  await page.done();
});

test('your own run: hostile and broken files are refused in one line with what and where', async (env) => {
  const page = await open(env);
  const clean = gunzipSync(await bytesOf('clean.pickle.gz'));
  const packed = await bytesOf('clean.pickle.gz');
  const bad = [
    ['os.pickle', Buffer.from('\x80\x02cos\nsystem\n(X\x02\0\0\0idtR.', 'latin1'), /byte 2: GLOBAL would run code/],
    ['cut.pickle', clean.subarray(0, 5000), /byte \d+: the file ends before the pickle does/],
    ['long.pickle', Buffer.from('\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7f', 'latin1'), /byte 2: a text of 9223372036854775807 bytes/],
    ['deep.pickle', Buffer.concat([Buffer.from('\x80\x04', 'latin1'), Buffer.alloc(5000, '(')]), /byte 66: nested deeper/],
    ['memo.pickle', Buffer.from('\x80\x02}r\xff\xff\xff\x7f.', 'latin1'), /byte 3: memo 2147483647/],
    ['none.pickle', Buffer.from('\x80\x04N.', 'latin1'), /this is a pickle, but not a memory snapshot/],
    ['empty.pickle', Buffer.from('\x80\x02}(X\x08\0\0\0segments]X\x0d\0\0\0device_traces](]eu.', 'latin1'), /has no events: call torch.cuda.memory._record_memory_history/],
    ['cut.gz', packed.subarray(0, 3000), /byte 3000: the packed file is damaged or cut short/],
    ['noise.gz', Buffer.concat([packed.subarray(0, 20), Buffer.alloc(2000, 7)]), /the packed file is damaged/],
  ];
  for (const [name, bytes, said] of bad) {
    await drop(page, name, bytes);
    await page.waitForFunction((file) => document.querySelector('what-fits').shadowRoot.querySelector('[data-testid=measured-refused]')?.textContent.includes(file), name, { timeout: 10000 });
    const line = await text(page, 'measured-refused');
    ok(said.test(line), `${name}: ${line}`);
    equal(await page.getByTestId('measured-picture').count(), 0, `a picture of ${name}`);
  }
  // The page goes on, and reads the next.
  await drop(page, 'clean.pickle', clean);
  await compared(page);
  equal(await text(page, 'measured-verdict'), 'As predicted', 'after all that');
  equal([...new Set(page.complaints)], [], 'complaints');
  await page.done();
  return `${bad.length} files`;
});

test('your own run: a part of its events; a long reading can be cancelled', async (env) => {
  const page = await open(env);
  await page.getByTestId('measured-drop').locator('summary').click();
  await page.getByTestId('measured-first').fill('1,000');
  await page.getByTestId('measured-first').press('Tab');
  await page.getByTestId('measured-file').setInputFiles(`${folder}clean.pickle.gz`);
  const read = (words) => page.waitForFunction((text) => document.querySelector('what-fits').shadowRoot.querySelector('[data-testid=measured-said]')?.textContent.replace(/\s+/g, ' ').includes(text), words, { timeout: 20000 });
  await read('1,497 events of the file’s 2,497');
  await page.getByTestId('measured-first').fill('2000');
  await page.getByTestId('measured-first').press('Tab');
  await page.getByTestId('measured-again').click();
  await read('gz: 497 events of the file’s 2,497');
  // Long enough to be interrupted: the same small values over and over.
  await page.evaluate(() => {
    const piece = new Uint8Array(1 << 20).fill(0x4e); // NONE
    for (let i = 1; i < piece.length; i += 2) piece[i] = 0x30; // POP
    const transfer = new DataTransfer();
    transfer.items.add(new File([Uint8Array.of(0x80, 4), ...Array(600).fill(piece)], 'long.pickle'));
    document.querySelector('what-fits').dispatchEvent(new DragEvent('drop', { bubbles: true, cancelable: true, dataTransfer: transfer }));
  });
  await page.getByTestId('measured-cancel').click();
  await page.getByTestId('measured-refused').waitFor();
  ok(/was let go/.test(await text(page, 'measured-refused')), 'no words about the cancelled file');
  equal([...new Set(page.complaints)], [], 'complaints');
  await page.done();
});

test('your own run: in a post, and where the second script is missing', async (env) => {
  const page = await fresh(env);
  await page.goto(`${env.url}/${await put('alone.html', post('<what-fits show="measured"><p>Fallback</p></what-fits>'))}`);
  await page.getByTestId('measured-file').setInputFiles(`${folder}clean.pickle.gz`);
  await page.getByTestId('measured-picture').waitFor();
  await page.route('**/what-fits-snapshot.js', (route) => route.abort());
  await page.reload();
  await page.getByTestId('measured-file').setInputFiles(`${folder}clean.pickle.gz`);
  await page.getByTestId('measured-missing').waitFor();
  ok(/second script, what-fits-snapshot\.js/.test(await text(page, 'measured-missing')), await text(page, 'measured-missing'));
  await page.done();
});
