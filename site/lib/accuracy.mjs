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

const precisionOf = (p) => {
  const bits = (x) => ({ float32: 'fp32', fp32: 'fp32', bfloat16: 'bf16', bf16: 'bf16', float16: 'fp16', fp16: 'fp16' })[x];
  const [weights, compute] = [bits(p?.weights), bits(p?.compute)];
  if (!weights || !compute) return undefined;
  if (p.autocast) return weights === 'fp32' ? `amp-${compute}` : undefined;
  return weights === compute ? weights : undefined;
};

/** A published point as a request, or why not. Only what the row states is used; nothing is guessed. */
export function requestOf(point, models, devices) {
  if (point.method !== 'full') return { why: `${point.method}: adapters and frozen models are not replayed yet` };
  if ((point.parallel?.gpus ?? 1) !== 1) return { why: 'several cards: not replayed yet' };
  if (!/HF|PyTorch|transformers|Liger/i.test(point.framework?.name ?? '')) return { why: `other code than Transformers' (${(point.framework?.name ?? 'not stated').replace(/ \(.*/, '').split(' ')[0]})` };
  if (/flash_attention_2/.test(point.attention ?? '')) return { why: 'FlashAttention-2: not replayed yet' };
  const model = models.find((m) => m.id === point.model?.name);
  if (!model) return { why: 'the model is not a preset' };
  const precision = precisionOf(point.precision);
  const batch = point.batch?.micro_batch;
  const length = point.batch?.seq_len;
  if (!precision || !batch || !length) return { why: 'precision, batch or length is not stated' };
  const device = devices.find((d) => (point.gpu?.name ?? '').toLowerCase().includes(d.id.replace(/-/g, ' ').replace(/ (pcie|sxm4|sxm|nvl)/, '')));
  return {
    request: {
      model: model.id, batch, seq_len: length, precision,
      checkpointing: /^full/.test(point.checkpointing ?? '') ? 'full' : 'none',
      ...(device ? { device: device.id } : {}),
    },
  };
}

/** What others printed: predicted where it can be, and the reasons where it cannot. */
export async function others(F) {
  const { points } = JSON.parse(await read('published/others.json'));
  const mapped = points.map((point) => ({ point, ...requestOf(point, F.models.models, F.devices.devices) }));
  const asked = mapped.filter((m) => m.request);
  const answers = await ask(asked.map((m) => ({ question: 'estimate', request: m.request })));
  asked.forEach((m, i) => {
    const problems = answers[i].problems;
    if (problems) m.why = /not supported/.test(JSON.stringify(problems)) ? "the model's code is not replayed yet" : 'the request was refused';
    else m.report = answers[i];
  });
  const reasons = new Map();
  for (const m of mapped) if (!m.report) reasons.set(m.why, (reasons.get(m.why) ?? 0) + 1);
  return { rows: mapped.filter((m) => m.report), reasons: [...reasons].sort((a, b) => b[1] - a[1]), total: points.length };
}
