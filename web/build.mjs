// Bundles what is published into dist/. The module comes from `cmake --build --preset wasm`; WHATFITS_WASM names another one.
import { spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const wasm = process.env.WHATFITS_WASM ?? here('../build/wasm/whatfits.wasm');
if (!existsSync(wasm)) {
  console.error(`no module at ${wasm}: run tools/setup-wasm, then cmake --preset wasm && cmake --build --preset wasm`);
  process.exit(1);
}

mkdirSync(here('dist'), { recursive: true });
copyFileSync(wasm, here('dist/whatfits.wasm'));
await build({
  entryPoints: { core: here('src/core/index.ts') },
  outdir: here('dist'),
  bundle: true,
  format: 'esm',
  target: 'es2022',
  minify: true,
  logLevel: 'warning',
});
const types = spawnSync(process.execPath, [here('node_modules/typescript/bin/tsc'), '--declaration', '--emitDeclarationOnly', '--outDir', here('dist/types')], {
  cwd: here('.'),
  stdio: 'inherit',
});
process.exit(types.status ?? 1);
