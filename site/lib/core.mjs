// The answers behind the pages: the same core as the element's, run once when the site is built.
// It is the WebAssembly core of web/dist. WHATFITS_ANSWERS may name a program that reads a JSON list of questions and prints an
// answer a line, to build the pages before the core is.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath, pathToFileURL } from 'node:url';

const root = fileURLToPath(new URL('../../', import.meta.url));

/** Asks all questions, in order. A question is {question, request, ...}; an answer is the core's JSON, or {problems: [...]}. */
export async function ask(questions) {
  const program = process.env.WHATFITS_ANSWERS;
  if (program) {
    const run = spawnSync(program, { input: JSON.stringify(questions), maxBuffer: 1 << 30, encoding: 'utf8' });
    if (run.status !== 0) throw new Error(`${program}: ${run.stderr}`);
    return run.stdout.trim().split('\n').map((line) => JSON.parse(line));
  }
  const built = `${root}web/dist/core.js`;
  if (!existsSync(built)) throw new Error('web/dist/core.js is missing: build the element first');
  const { openCore } = await import(pathToFileURL(built).href);
  const core = await openCore();
  return questions.map((q) => core.ask(q));
}
