// Builds dist/: the one-file element, its module form, the script that reads snapshots, the core for programs, types and the
// custom-elements manifest.
// Usage: node build.mjs [--wasm FILE]; the module is otherwise WHATFITS_WASM, or build/wasm/whatfits.wasm of the repository; the
// second one, whatfits-snapshot.wasm, is beside it.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { copyFileSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { basename, dirname, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import * as esbuild from 'esbuild';
import { manifest } from './manifest.mjs';
import { pack } from './pack.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const flag = process.argv.indexOf('--wasm');
const wasmFile = resolve(here, flag > 0 ? process.argv[flag + 1] : (process.env.WHATFITS_WASM ?? '../build/wasm/whatfits.wasm'));
const dist = resolve(here, 'dist');
/** Bytes of the one-file element, gzip -9. Over the first it warns, over the second the build fails. */
const WISH = 150_000;
const LIMIT = 200_000;

const snapshotFile = resolve(dirname(wasmFile), 'whatfits-snapshot.wasm');

function moduleAt(file) {
  try {
    return readFileSync(file);
  } catch {
    console.error(`build: no WebAssembly module at ${file}; build it first (tools/setup-wasm, cmake --preset wasm, cmake --build --preset wasm)`);
    process.exit(1);
  }
}

const unpacker = moduleAt(resolve(dirname(wasmFile), 'unpack.wasm'));
const packed = {};
for (const file of [wasmFile, snapshotFile]) packed[basename(file)] = (await pack(moduleAt(file), unpacker)).toString('base64');
const inlineWasm = {
  name: 'inline-wasm',
  setup(build) {
    build.onResolve({ filter: /^whatfits(-snapshot)?\.wasm$/ }, ({ path }) => ({ path, namespace: 'inline-wasm' }));
    build.onLoad({ filter: /.*/, namespace: 'inline-wasm' }, ({ path }) => ({ contents: `export default ${JSON.stringify(packed[path])}`, loader: 'js' }));
  },
};

/** Lit's templates and style sheets hold white space for people; the page needs none. */
const squeeze = {
  name: 'squeeze',
  setup(build) {
    build.onLoad({ filter: /src\/(parts|style)\/.*\.ts$|what-fits\.ts$/ }, ({ path }) => {
      let text = readFileSync(path, 'utf8');
      text = text.replace(/\n\s+/g, '\n');
      text = text.replace(/(css`)([^`]*)(`)/g, (_, open, body, close) => open + body.replace(/\/\*[\s\S]*?\*\//g, '').replace(/\s+/g, ' ').replace(/\s*([{};,>])\s*/g, '$1') + close);
      return { contents: text, loader: 'ts' };
    });
  },
};

const common = {
  absWorkingDir: here,
  bundle: true,
  minify: true,
  target: ['es2022', 'chrome111', 'firefox115', 'safari16.4'],
  charset: 'utf8',
  legalComments: 'none',
  logLevel: 'warning',
  plugins: [inlineWasm, squeeze],
  define: { 'process.env.NODE_ENV': '"production"' },
  banner: { js: '/*! what-fits, MIT. Contains lit, BSD-3-Clause. */' },
};

rmSync(dist, { recursive: true, force: true });
mkdirSync(dist, { recursive: true });
const classic = { ...common, format: 'iife', define: { ...common.define, 'import.meta.url': 'undefined' } };
const integrityOf = (name) => `sha384-${createHash('sha384').update(readFileSync(resolve(dist, name))).digest('base64')}`;
await esbuild.build({ ...classic, entryPoints: ['src/snapshot.ts'], outfile: 'dist/what-fits-snapshot.js' });
classic.define.READER_INTEGRITY = JSON.stringify(integrityOf('what-fits-snapshot.js'));
await esbuild.build({ ...classic, entryPoints: ['src/what-fits.ts'], outfile: 'dist/what-fits.js' });
await esbuild.build({ ...common, entryPoints: ['src/what-fits.ts'], outfile: 'dist/what-fits.mjs', format: 'esm', define: { ...common.define, READER_INTEGRITY: '""' } });
await esbuild.build({ ...common, entryPoints: ['src/core/index.ts'], outfile: 'dist/core.js', format: 'esm', plugins: [] });
await esbuild.build({ ...common, entryPoints: ['src/core/snapshot.ts'], outfile: 'dist/snapshot.js', format: 'esm', plugins: [] });
copyFileSync(wasmFile, resolve(dist, 'whatfits.wasm'));
copyFileSync(snapshotFile, resolve(dist, 'whatfits-snapshot.wasm'));
// For programs that want one file too: import text from 'what-fits/core/embedded', then loadCore(text).
writeFileSync(resolve(dist, 'embedded.js'), `export default ${JSON.stringify(packed['whatfits.wasm'])};\n`);
writeFileSync(resolve(dist, 'embedded.d.ts'), '/** The module, packed, in base64. */\ndeclare const module: string;\nexport default module;\n');
execFileSync(process.execPath, [resolve(here, 'node_modules/typescript/bin/tsc'), '-p', 'tsconfig.types.json'], { cwd: here, stdio: 'inherit' });
copyFileSync(resolve(here, 'types/what-fits.d.ts'), resolve(dist, 'types/what-fits.d.ts'));
writeFileSync(resolve(dist, 'custom-elements.json'), `${JSON.stringify(manifest(), null, 2)}\n`);

const kb = (bytes) => `${(bytes / 1000).toFixed(1).padStart(7)} KB`;
console.log(`${''.padEnd(24)}${'raw'.padStart(10)}${'gzip'.padStart(10)}${'brotli'.padStart(10)}`);
for (const name of ['what-fits.js', 'what-fits.mjs', 'what-fits-snapshot.js', 'core.js', 'whatfits.wasm', 'snapshot.js', 'whatfits-snapshot.wasm']) {
  const bytes = readFileSync(resolve(dist, name));
  console.log(`${name.padEnd(24)}${kb(statSync(resolve(dist, name)).size)}${kb(gzipSync(bytes, { level: 9 }).length)}${kb(brotliCompressSync(bytes).length)}`);
}
const one = readFileSync(resolve(dist, 'what-fits.js'));
for (const name of ['what-fits.js', 'what-fits-snapshot.js']) {
  writeFileSync(resolve(dist, `${name}.sri`), `${integrityOf(name)}\n`);
  console.log(`integrity of ${name}: ${integrityOf(name)}`);
}
const size = gzipSync(one, { level: 9 }).length;
if (size > LIMIT) {
  console.error(`build: what-fits.js has ${size} bytes gzipped, over the limit of ${LIMIT}`);
  process.exit(1);
}
if (size > WISH) console.warn(`build: what-fits.js has ${size} bytes gzipped; ${WISH} are wished for`);
