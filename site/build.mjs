// Builds site/dist: every page, with its figures asked of the core. `node site/build.mjs [--hash]`
import { createHash } from 'node:crypto';
import { copyFile, mkdir, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { figures } from './lib/figures.mjs';
import { layout } from './lib/layout.mjs';

const here = fileURLToPath(new URL('.', import.meta.url));
const out = `${here}dist/`;
const element = `${here}../web/dist/what-fits.js`;
const hashed = process.argv.includes('--hash');

/** Copies one file; with --hash its name carries the content's hash. Answers the name. */
async function asset(from, name) {
  const bytes = await readFile(from);
  const digest = createHash('sha256').update(bytes).digest('hex').slice(0, 10);
  const target = hashed ? name.replace(/(\.[a-z]+)$/, `.${digest}$1`) : name;
  await writeFile(out + target, bytes);
  return target;
}

await rm(out, { recursive: true, force: true });
await mkdir(out, { recursive: true });
const assets = {};
for (const name of ['site.css', 'site.js', 'icon.svg']) assets[name] = await asset(`${here}assets/${name}`, name);
// The element keeps its plain name: posts elsewhere point at it, and it finds the reader of snapshots beside it.
if (!existsSync(element)) console.error('site: web/dist/what-fits.js is missing; the pages will show their fallbacks only');
else for (const name of ['what-fits.js', 'what-fits-snapshot.js']) await copyFile(`${here}../web/dist/${name}`, out + name);
assets['what-fits.js'] = 'what-fits.js';
const integrity = existsSync(element) ? `sha384-${createHash('sha384').update(await readFile(element)).digest('base64')}` : null;

const facts = { ...(await figures()), integrity };
for (const file of (await readdir(`${here}pages`)).filter((f) => f.endsWith('.mjs'))) {
  const module = await import(`./pages/${file}`);
  if (!module.page) continue; // a part of another page
  const body = await module.render(facts);
  await writeFile(out + module.page.file, layout({ ...module.page, body, assets }));
}
if (existsSync(`${here}assets/embed.html`)) {
  for (const name of ['embed.html', 'embed.js', 'embed.css', 'embed-host.js']) await copyFile(`${here}assets/${name}`, out + name);
}
console.log(`site: ${(await readdir(out)).length} files in site/dist${integrity ? `, what-fits.js ${integrity}` : ''}`);
