// Every figure of the prose, asked of the core or read from fixtures. The pages hold no result typed by hand.
import { readFile } from 'node:fs/promises';
import { ask } from './core.mjs';

const fixture = async (name) => JSON.parse(await readFile(new URL(`../../fixtures/${name}`, import.meta.url), 'utf8'));

const run = { model: 'gpt2-from-scratch', seq_len: 1024, precision: 'fp32', attention: 'eager', optimizer: 'adamw', device: 'a40' };
const batches = Array.from({ length: 24 }, (_, i) => i + 1);

/** Readings between blocks, as hooks would take them: the level at the last event of each stretch of one phase and layer. */
function boundaryReadings(events) {
  const readings = [];
  events.forEach((event, i) => {
    const next = events[i + 1];
    const last = next === undefined || next.phase !== event.phase || next.layer !== event.layer;
    if (last) readings.push({ event: event.event, allocated: event.allocated, phase: event.phase, layer: event.layer });
  });
  return readings;
}

function blockGrowth(events) {
  const starts = new Map();
  events.forEach((event, i) => {
    if (event.phase !== 'forward' || event.layer === null || starts.has(event.layer)) return;
    starts.set(event.layer, events[i - 1].allocated);
  });
  return starts.get(2) - starts.get(1);
}

/** What one block keeps, summed over tensors alike. */
function blockLines(report, layer) {
  const lines = new Map();
  for (const row of report.ledger) {
    if (row.layer !== layer || !['activations', 'attention'].includes(row.category)) continue;
    const key = `${row.label}|${row.shape.join('×')}`;
    const line = lines.get(key) ?? { label: row.label, shape: row.shape, formula: row.formula, count: 0, bytes: 0 };
    line.count += row.count;
    line.bytes += row.bytes;
    lines.set(key, line);
  }
  return [...lines.values()];
}

/** The pool of the failing batch: after its first step, and when the fourth large tensor is asked for. */
async function poolStory(request) {
  const [one, two] = await ask([{ question: 'timeline', request, step: 1 }, { question: 'timeline', request, step: 2 }]);
  const [after, full] = await ask([one, two].map((t) => ({ question: 'pool', request, event: t.events.at(-1).event })));
  const most = Math.max(...full.segments.map((s) => s.size));
  const state = (segment) => segment.blocks.filter((b) => b.category === 'optimizer_state').reduce((sum, b) => sum + b.size, 0);
  const home = after.segments.filter((s) => s.size > 256 * 2 ** 20).reduce((best, s) => (state(s) > state(best) ? s : best));
  const large = full.segments.filter((s) => s.size > 0.9 * most);
  const spoilt = large.find((s) => s.blocks.some((b) => b.category === 'attention'));
  const invader = spoilt.blocks.find((b) => b.category === 'attention');
  const free = spoilt.blocks.filter((b) => !b.allocated).reduce((best, b) => Math.max(best, b.size), 0);
  return {
    home, homeState: state(home), large, spoilt, invader, left: free, freeAfter: after.segments.filter((s) => s.size > 0.9 * most && s.blocks.every((b) => !b.allocated)).length,
    blocks: full.segments.filter((s) => s.size === home.size).length,
  };
}

export async function figures() {
  const [published, account, models, devices] = await Promise.all(
    ['published/gpt2-a40.json', 'published/general-account.json', 'models.json', 'devices.json'].map(fixture));
  const measured = {};
  for (const list of [published.figures, published.other]) for (const row of list) measured[row.id] = row;
  for (const row of Object.values(published.budget)) if (row.id) measured[row.id] = row;

  const questions = {
    eight: { question: 'estimate', request: { ...run, batch: 8 } },
    fit: { question: 'fit', request: run },
    fitHalf: { question: 'fit', request: { ...run, seq_len: 512 } },
    fitExpandable: { question: 'fit', request: { ...run, allocator: { expandable_segments: true } } },
    fitFused: { question: 'fit', request: { ...run, attention: 'sdpa' } },
    advice: { question: 'advise', request: { ...run, batch: 21 } },
    step: { question: 'timeline', request: { ...run, batch: 8 }, step: 2 },
    explain: { question: 'explain', request: { ...run, batch: 8 } },
    ...Object.fromEntries(batches.map((batch) => [`b${batch}`, { question: 'estimate', request: { ...run, batch } }])),
  };
  const names = Object.keys(questions);
  const answers = await ask(names.map((name) => questions[name]));
  const got = Object.fromEntries(names.map((name, i) => [name, answers[i]]));
  for (const name of names) if (got[name].problems) throw new Error(`${name}: ${got[name].problems.join('; ')}`);

  const { eight, step } = got;
  const pool = await poolStory({ ...run, batch: got.fit.first_failure_at });
  const [first, second] = eight.steps;
  const readings = boundaryReadings(step.events);
  const logits = eight.ledger.find((row) => row.label === 'logits').bytes;
  const before = second.before.allocated;
  const peak = eight.peak.allocated;
  const free = published.device.free_mib * 2 ** 20;
  const straight = got.explain.measured_calculator;
  return {
    published, account, models, devices, measured, run, got, pool, eight, step, readings, logits, before, peak, free, first, second,
    parameters: eight.parameters,
    weights: eight.categories.parameters,
    adam: eight.categories.optimizer_state,
    state: 16 * eight.parameters,
    masks: eight.categories.buffers,
    workspaces: eight.categories.workspaces,
    forward: second.after_forward.allocated - before,
    vocabulary: 4 * logits,
    kept: peak - before - 4 * logits,
    block: blockGrowth(step.events),
    blockLines: blockLines(eight, 5),
    largestReading: readings.reduce((most, r) => (r.allocated > most.allocated ? r : most)),
    sequence: (peak - before) / 8,
    straightBatch: straight.batch_by_allocated,
    largest: got.fit.largest_batch,
    failing: got.fit.first_failure,
    sweep: batches.map((batch) => ({ batch, report: got[`b${batch}`] })),
    advice: got.advice,
  };
}
