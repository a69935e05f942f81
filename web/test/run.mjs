// Bundles the unit tests (TypeScript, extensionless of any browser) and hands them to node --test.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import * as esbuild from 'esbuild';

const here = dirname(fileURLToPath(import.meta.url));
const out = mkdtempSync(join(tmpdir(), 'what-fits-test-'));
const names = readdirSync(here).filter((name) => name.endsWith('.test.ts'));
await esbuild.build({
  entryPoints: names.map((name) => resolve(here, name)),
  outdir: out, outExtension: { '.js': '.mjs' }, bundle: true, platform: 'node', format: 'esm', target: 'node20', logLevel: 'warning', sourcemap: 'inline',
});
const run = spawnSync(process.execPath, ['--enable-source-maps', '--test', ...names.map((name) => join(out, name.replace(/\.ts$/, '.mjs')))], {
  stdio: 'inherit',
  env: { ...process.env, WHATFITS_WASM: process.env.WHATFITS_WASM ?? resolve(here, '../../build/wasm/whatfits.wasm') },
});
rmSync(out, { recursive: true, force: true });
process.exit(run.status ?? 1);
