// What the browser tests share: a runner, two origins, one Chromium, and questions to the page.
import { AxeBuilder } from '@axe-core/playwright';
import { chromium } from 'playwright-core';
import { cp, mkdir, rm, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { serve } from '../../site/serve.mjs';

export const root = fileURLToPath(new URL('../../', import.meta.url));
export const dist = `${root}site/dist/`;
export const work = `${root}build/test-web/`;
export const shots = `${root}build/shots/`;

const tests = [];
export const test = (name, run) => tests.push({ name, run });
export const group = { name: '' };

export function ok(condition, message) {
  if (!condition) throw new Error(message);
}
export function equal(got, want, message = '') {
  if (JSON.stringify(got) !== JSON.stringify(want)) throw new Error(`${message}: got ${JSON.stringify(got)}, want ${JSON.stringify(want)}`);
}

/** A policy that the site could set: nothing inline, WebAssembly allowed. */
const strict = "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'";
const forbids = "default-src 'self'; script-src 'self'";

export async function open() {
  await rm(work, { recursive: true, force: true });
  await mkdir(work, { recursive: true });
  await mkdir(shots, { recursive: true });
  await cp(dist, work, { recursive: true });
  const site = await serve(work, 0, (path) => (path.startsWith('/strict/') || path.includes('strict') ? { 'content-security-policy': strict }
    : path.includes('forbids') ? { 'content-security-policy': forbids } : {}));
  const elsewhere = await serve(dist); // another port is another origin; it sends no CORS header
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
  });
  return {
    browser, url: site.url, elsewhere: elsewhere.url,
    async close() { await browser.close(); site.server.close(); elsewhere.server.close(); },
  };
}

/** A page in a context of its own. `page.complaints` collects errors of the page. */
export async function fresh(env, { width = 1200, height = 900, scheme = 'light', ...options } = {}) {
  const context = await env.browser.newContext({ viewport: { width, height }, colorScheme: scheme, ...options });
  const page = await context.newPage();
  page.complaints = [];
  page.requests = [];
  page.on('pageerror', (error) => page.complaints.push(`error: ${error.message}`));
  page.on('console', (message) => ['error', 'warning'].includes(message.type()) && page.complaints.push(`console: ${message.text()}`));
  page.on('request', (request) => page.requests.push(request.url()));
  page.done = () => context.close();
  return page;
}

export async function put(name, html) {
  const at = work + name;
  await mkdir(at.slice(0, at.lastIndexOf('/')), { recursive: true });
  await writeFile(at, html);
  return name;
}

export const post = (body, { script = '<script src="what-fits.js" defer></script>', head = '' } = {}) =>
  `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>A post</title><link rel="icon" href="icon.svg">${head}${script}</head><body><main><h1>A post</h1>${body}</main></body></html>`;

export const tag = (attributes = '', inside = '<p>The author says: 16.65 GiB.</p>') =>
  `<what-fits model="gpt2-from-scratch" batch="8" seq-len="1024" show="verdict,bar,controls" controls="batch,seq-len" ${attributes}>${inside}</what-fits>`;

/** Waits for an answer of the nth element: the verdict is there and its largest batch is known. */
export async function verdict(page, nth = 0, timeout = 20000) {
  const element = page.locator('what-fits').nth(nth);
  await element.evaluate((e) => e.scrollIntoView({ block: 'start', behavior: 'instant' }));
  // Without the verdict among the parts shown, any answer will do.
  await page.waitForFunction((n) => document.querySelectorAll('what-fits')[n]?.report, nth, { timeout });
  const largest = element.getByTestId('largest-batch');
  if (!/verdict|all/.test((await element.getAttribute('show')) ?? 'verdict')) return null;
  await largest.waitFor({ timeout });
  await page.waitForFunction(
    (n) => {
      const deep = (node) => { // the part may have a root of its own
        const found = node.querySelector?.('[data-testid=largest-batch]');
        if (found) return found;
        for (const child of node.querySelectorAll?.('*') ?? []) if (child.shadowRoot) { const inner = deep(child.shadowRoot); if (inner) return inner; }
        return null;
      };
      const host = document.querySelectorAll('what-fits')[n];
      const at = host?.shadowRoot && deep(host.shadowRoot);
      return at && /\d/.test(at.textContent) && !at.classList.contains('pending');
    }, nth, { timeout });
  return {
    state: (await element.getByTestId('state').innerText()).trim(),
    largest: Number((await largest.innerText()).replace(/\D/g, '')),
    allocated: await element.getByTestId('peak-allocated').innerText(),
    reserved: await element.getByTestId('peak-reserved').innerText(),
  };
}

const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
export async function accessible(page, what) {
  const result = await new AxeBuilder({ page }).withTags(tags).analyze();
  const said = result.violations.map((v) => `${v.id} (${v.nodes.length}): ${v.nodes.slice(0, 2).map((n) => n.target.flat().join(' > ')).join(' | ')}`);
  ok(said.length === 0, `${what}: ${said.join('; ')}`);
  return result.passes.length;
}

/** True width of the content against the window. */
export const overflow = (page) => page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);

export async function run(env, { only } = {}) {
  let passed = 0;
  const failures = [];
  for (const { name, run: body } of tests) {
    if (only && !name.includes(only)) continue;
    const start = performance.now();
    try {
      const said = await body(env);
      passed += 1;
      console.log(`ok   ${name}${typeof said === 'string' ? `: ${said}` : ''} (${((performance.now() - start) / 1000).toFixed(1)} s)`);
    } catch (error) {
      failures.push(name);
      console.log(`FAIL ${name}: ${error.message.split('\n').slice(0, 6).join('\n     ')}`);
    }
  }
  return { passed, failed: failures.length };
}
