// Predictions beside measurements, row by row, from fixtures/.
import { readFile } from 'node:fs/promises';
import { ask } from './core.mjs';

const read = (name) => readFile(new URL(`../../fixtures/${name}`, import.meta.url), 'utf8');

/** The published figures of one A40: {id, what, measured, predicted, unit, agrees}. */
export function published(F) {
  const { eight, first, second, step, got } = F;
  const firstOfLayer = step.events.findIndex((e) => e.layer === 0);
  const starts = [];
  step.events.forEach((e, i) => { if (e.phase === 'forward' && e.layer !== null && step.events[i - 1].layer !== e.layer) starts.push(step.events[i - 1].allocated); });
  const lastForward = step.events.findLastIndex((e) => e.phase === 'forward' && e.layer !== null);
  const growth = [...starts.slice(1), step.events[lastForward].allocated].map((level, i) => level - starts[i]);
  const bytes = {
    warmup: eight.after_warmup.allocated,
    model_cuda: eight.after_model.allocated - eight.after_warmup.allocated,
    optimizer_created: eight.after_optimizer.allocated - eight.after_model.allocated,
    first_optimizer_step: first.after_optimizer_step.allocated - first.after_backward.allocated,
    zero_grad: first.after_zero_grad.allocated - first.after_optimizer_step.allocated,
    second_optimizer_step: second.after_optimizer_step.allocated - second.after_backward.allocated,
    step2_start: second.before.allocated,
    step2_forward: F.forward,
    step2_after_forward: second.after_forward.allocated,
    before_block_1: step.events[firstOfLayer - 1].allocated - second.before.allocated,
    block_least: Math.min(...growth),
    block_most: Math.max(...growth),
    activations: F.kept,
    step2_peak: second.peak.allocated,
    step2_peak_less_step1: second.peak.allocated - first.peak.allocated,
  };
  for (const batch of [16, 18, 20]) {
    bytes[`batch${batch}_allocated`] = got[`b${batch}`].peak.allocated;
    bytes[`batch${batch}_reserved`] = got[`b${batch}`].peak.reserved;
  }
  return F.published.figures.map((figure) => {
    if (figure.verdict) {
      const report = got[`b${figure.batch}`];
      const step = report.oom?.step ?? null;
      return { figure, verdict: report.verdict, step, agrees: report.verdict === figure.verdict && (figure.step === null || figure.step === step) };
    }
    const predicted = bytes[figure.id];
    return { figure, predicted, agrees: predicted !== undefined && Math.abs(predicted - figure.bytes) <= figure.rounding_halfwidth_bytes };
  });
}

const counters = (truth) => {
  const list = [];
  for (const key of ['after_warmup', 'after_model', 'after_optimizer']) if (truth[key]) list.push([key, truth[key]]);
  (truth.steps ?? []).forEach((step, i) => { for (const [key, value] of Object.entries(step)) list.push([`steps.${i}.${key}`, value]); });
  return list;
};

const at = (report, path) => path.split('.').reduce((value, key) => value?.[key], report);

/** PyTorch's own counters on a virtual device: every counter of every run. */
export async function replayed() {
  const rows = (await read('torch/gpt2-from-scratch.jsonl')).trim().split('\n').map((line) => JSON.parse(line));
  const answers = await ask(rows.map((row) => ({ question: 'estimate', request: row.request })));
  return rows.map((row, i) => {
    const report = answers[i];
    let compared = 0;
    let equal = 0;
    for (const [path, value] of report.problems ? [] : counters(row.truth)) {
      for (const key of ['allocated', 'reserved']) {
        compared += 1;
        if (at(report, path)?.[key] === value[key]) equal += 1;
      }
    }
    return { row, report, compared, equal };
  });
}

/** Of errors in parts of one: the middle, and the least that is not below nine in ten. */
export function spread(errors) {
  const sizes = errors.map(Math.abs).sort((a, b) => a - b);
  const half = Math.floor(sizes.length / 2);
  return {
    count: sizes.length,
    median: sizes.length % 2 ? sizes[half] : (sizes[half - 1] + sizes[half]) / 2,
    ninetieth: sizes[Math.ceil((9 * sizes.length) / 10) - 1],
  };
}

/** What others printed (others.json), beside the prediction of the request that says the same run (requests.json). */
export async function others() {
  const { points } = JSON.parse(await read('published/others.json'));
  const { requests, not_covered: notCovered } = JSON.parse(await read('published/requests.json'));
  const byId = new Map(points.map((point) => [point.id, point]));
  const answers = await ask(requests.map((entry) => ({ question: 'estimate', request: entry.request })));
  const rows = requests.flatMap((entry, i) => {
    const report = answers[i];
    if (report.problems) throw new Error(`requests.json: ${entry.rows[0]}: ${JSON.stringify(report.problems)}`);
    return entry.rows.map((id) => {
      const point = byId.get(id);
      const readings = entry.reads.map(({ counter, value }) => {
        const predicted = at(report, value.replaceAll('[', '.').replaceAll(']', ''));
        if (value === 'verdict') return { counter, value, predicted, measured: point.verdict };
        const measured = point.measured.find((m) => m.counter.startsWith(counter));
        return { counter: measured.counter, value, predicted, measured: measured.bytes, error: predicted / measured.bytes - 1 };
      });
      return { point, assumed: entry.assumed, why: entry.why, readings };
    });
  });
  // The first counter of a run counts, where it is PyTorch's own: that of nvidia-smi has the context in it.
  const counted = rows.filter(({ point, readings }) => point.grade === 'A' && readings[0].error !== undefined).map(({ readings }) => readings[0].error);
  return { rows, errors: spread(counted), notCovered: [...notCovered].sort((a, b) => b.rows.length - a.rows.length), total: points.length };
}
