// The answers behind the pages: the same core as the element's, run once when the site is built.
// WHATFITS_ANSWERS may name a program that reads a JSON list of questions and prints an answer a line, instead of web/dist.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath, pathToFileURL } from 'node:url';

const root = fileURLToPath(new URL('../../', import.meta.url));

/** The step's table as a list of events, each with its bytes by category. */
function events(core, { request, step = -1 }) {
  const run = core.open(request);
  if (Array.isArray(run)) return { problems: run.map((p) => p.line) };
  const timeline = run.timeline(step);
  const list = Array.from({ length: timeline.count }, (_, i) => ({
    ...timeline.row(i),
    categories: timeline.categories.map((_, c) => timeline.category[c * timeline.count + i]),
  }));
  run.close();
  return { step: timeline.step, categories: [...timeline.categories], events: list, oom: timeline.oom };
}

function pool(core, { request, event }) {
  const run = core.open(request);
  if (Array.isArray(run)) return { problems: run.map((p) => p.line) };
  const answer = run.pool(event);
  run.close();
  return answer;
}

function answer(core, question) {
  const { question: name, request } = question;
  try {
    if (name === 'timeline') return events(core, question);
    if (name === 'pool') return pool(core, question);
    return core[name](request);
  } catch (error) {
    if (error.name !== 'RequestError') throw error;
    return { problems: error.problems.map((p) => p.line) };
  }
}

/** Asks all questions, in order. A question is {question, request, ...}; an answer is the core's JSON, or {problems: [...]}. */
export async function ask(questions) {
  const program = process.env.WHATFITS_ANSWERS;
  if (program) {
    const run = spawnSync(program, { input: JSON.stringify(questions), maxBuffer: 1 << 30, encoding: 'utf8' });
    if (run.status !== 0) throw new Error(`${program}: ${run.stderr}`);
    return run.stdout.trim().split('\n').map((line) => JSON.parse(line));
  }
  const built = `${root}web/dist/core.js`;
  if (!existsSync(built)) throw new Error('web/dist/core.js is missing: build the element first (tools/serve does)');
  const { loadCore } = await import(pathToFileURL(built).href);
  const core = await loadCore();
  return questions.map((question) => answer(core, question));
}
