// Generated from fixtures/ and the core: nothing on this page is typed.
import { escape, html, int, mib, percent, printed, table } from '../lib/format.mjs';
import { others, published, replayed } from '../lib/accuracy.mjs';
import { account, standardShapes } from '../lib/account.mjs';

export const page = {
  file: 'accuracy.html',
  title: 'How right it has been',
  description: 'Every prediction beside its measurement, with provenance, and what is not covered.',
};

const yes = '<span class="ok">✓ agrees</span>';
const no = '<span class="bad">✕ differs</span>';
const word = (verdict, step) => (verdict === 'fits' ? 'fits' : `oom${step ? `, step ${step}` : ''}`);

function cardRow({ figure, predicted, agrees, verdict, step }) {
  const batch = figure.batch ?? '';
  if (figure.verdict) return [escape(figure.what), batch, 'the run itself', word(figure.verdict, figure.step), word(verdict, step), '', agrees ? yes : no];
  const difference = predicted - figure.bytes;
  return [
    escape(figure.what.replace(/ \(.*\)$/, '')), batch, escape((figure.counter ?? '').replace('torch.cuda.', '')), printed(figure), mib(predicted, figure.digits_printed.includes('.') ? 3 : 1),
    figure.bytes === 0 ? mib(difference, 1) : percent(difference / figure.bytes, 3).replace('−0.000', '0.000'), agrees ? yes : no,
  ];
}

function torchRow({ row, report, compared, equal }) {
  const truth = row.truth;
  const peaks = (truth.steps ?? []).map((s) => s.peak).filter(Boolean);
  const most = (key) => (peaks.length ? mib(Math.max(...peaks.map((p) => p[key])), 1) : '–');
  const request = row.request;
  const what = [request.batch, request.seq_len ?? '', request.precision ?? 'fp32', request.optimizer ?? 'adamw', request.attention ?? 'eager'].join(' · ');
  const verdict = truth.verdict === 'fits' ? 'fits' : `oom, step ${truth.oom?.step}`;
  const same = compared > 0 && compared === equal && report.verdict === truth.verdict;
  return [escape(row.id), escape(what), verdict, most('allocated'), most('reserved'), `${equal} of ${compared}`, same ? '<span class="ok">✓ equal</span>' : no];
}

/** The readings of others' runs that are wanted: a line each. */
function othersTable(rows, caption, wanted) {
  const shown = (one, value) => (one.error === undefined ? escape(value) : mib(value, 1));
  return table({
    caption,
    head: ['run', 'counter', 'measured', 'replay', 'error'],
    numeric: [2, 3, 4],
    rows: rows.flatMap(({ point, readings }) => readings.filter(wanted).map((one) => [
      `<a href="${escape(point.source.url)}">${escape(point.id)}</a>`, escape(one.counter.replace('torch.cuda.', '').replace(/ \(.*|, peak .*/, '')),
      shown(one, one.measured), shown(one, one.predicted),
      one.error === undefined ? (one.measured === one.predicted ? yes : no) : percent(one.error, Math.abs(one.error) < 0.001 ? 4 : 2),
    ])),
  });
}

export async function render(F) {
  const card = published(F);
  const torch = await replayed();
  const other = await others();
  const agreeing = card.filter((r) => r.agrees).length;
  const exact = torch.filter((r) => r.compared > 0 && r.equal === r.compared && r.report.verdict === r.row.truth.verdict).length;
  const compared = torch.reduce((s, r) => s + r.compared, 0);
  const equal = torch.reduce((s, r) => s + r.equal, 0);
  const forty = account(standardShapes(F.account)[1][1]);
  const mlx = F.account.measured_mlx.rows[0];
  return html`<article>
<header class="hero">
<p class="kicker">Predicted, measured, and by whom</p>
<h1>How right it has been</h1>
<p class="standfirst">Every row here is computed when the page is built, by the code that runs in it, and set beside what was measured. A row that does not agree stays.</p>
</header>
<ul class="cards">
<li><b>${agreeing} of ${card.length}</b>published figures of one real card, each to its printed digits</li>
<li><b>${exact} of ${torch.length}</b>runs of PyTorch's own code on a virtual device, equal in every counter</li>
<li><b>${int(equal)} of ${int(compared)}</b>counters equal to the byte</li>
<li><b>${other.rows.length} of ${other.total}</b>peaks that others printed can be predicted so far</li>
</ul>
<section>
<h2>One A40</h2>
<p>Two training steps of GPT&#8209;2 small, and a sweep of batches, published by someone else. Agreement means: equal after rounding to the digits that were printed.</p>
<div class="wide">${table({
    caption: `Measured on ${escape(F.published.device.name)}, PyTorch ${F.published.versions.torch}, CUDA ${F.published.versions.cuda}, ${int(F.published.device.free_mib)} MiB free; replayed as PyTorch ${F.eight.request.torch}. MiB.`,
    head: ['figure', 'batch', 'counter', 'card', 'replay', 'error', 'verdict'],
    numeric: [1, 3, 4, 5],
    rows: card.map(cardRow),
  })}</div>
<p class="source">Provenance: ${escape(F.published.source.title)}; ${escape(F.published.source.taken)}. <code>fixtures/published/gpt2-a40.json</code></p>
<p>Some details of that script are not told: how a local variable is named decides when it dies. They were chosen so that all figures come out at once. Nothing in that choice moves a figure by more than about 3 MiB in 17,000, but take it as known before you call the rows a blind test.</p>
</section>
<section>
<h2>PyTorch itself, without a card</h2>
<p>The other yardstick is PyTorch's own allocator and operators, run against a device that has memory but computes nothing. No kernel ran. What it shows is that the replay follows PyTorch's bookkeeping; what a real card adds is the driver.</p>
<details><summary>All ${torch.length} runs: peaks in MiB, counters compared</summary>
${table({
    caption: 'Counters of PyTorch 2.6.0 on a virtual CUDA device, and how many of them the replay meets to the byte.',
    head: ['run', 'batch · length · precision · optimizer · attention', 'verdict', 'allocated', 'reserved', 'counters', 'all'],
    numeric: [3, 4, 5],
    rows: torch.map(torchRow),
  })}
</details>
<p class="source">Provenance of each: ${escape(torch[0].row.provenance)}. <code>fixtures/torch/gpt2-from-scratch.jsonl</code></p>
</section>
<section>
<h2>The formula</h2>
${table({
    caption: 'The general account beside what was measured. It is a formula, not a replay.',
    head: ['run', 'measured', 'formula', 'error', 'by'],
    numeric: [1, 2, 3],
    rows: [
      ['GPT&#8209;2 small, A40, batch 8', `${mib(F.measured.step2_peak.bytes)} MiB`, `${mib(F.got.explain.general_account.total)} MiB`, percent(F.got.explain.general_account.total / F.measured.step2_peak.bytes - 1, 1), 'max_memory_allocated'],
      ['40 M shape, Apple M2, MLX, 2,048 tokens', `${printed(mlx)} GB`, `${(forty.total / 1e9).toFixed(3)} GB`, percent(forty.total / mlx.bytes - 1, 1), 'get_peak_memory'],
    ],
  })}
<p class="source"><code>fixtures/published/general-account.json</code></p>
</section>
<section>
<h2>What others printed</h2>
<p>${other.total} peaks of real runs were gathered from public repositories and issues. ${other.rows.length} of them are written out as requests: what the source says the run did, and where it is silent the framework&rsquo;s default. Of the ${other.errors.count} runs on one card that state enough to be predicted within 5&nbsp;% and were counted by PyTorch itself, the middle error is ${percent(other.errors.median, 3).replace('+', '')} and nine in ten are within ${percent(other.errors.ninetieth, 2).replace('+', '')}.</p>
<div class="wide">${othersTable(other.rows, 'PyTorch&rsquo;s counters as printed by others, and the replay. MiB.', (one) => one.error !== undefined && one.value !== 'peak.device')}</div>
${other.rows.filter(({ why }) => why).map(({ point, why }) => `<p><b>${escape(point.id)}</b>: ${escape(why)}</p>`).join('\n')}
<div class="wide">${othersTable(other.rows, 'The same runs by nvidia-smi, which counts the context too: a figure of the card. MiB.', (one) => one.value === 'peak.device')}</div>
${othersTable(other.rows, 'Runs published for running out of memory.', (one) => one.error === undefined)}
<details><summary>What was assumed of each run</summary>
${other.rows.map(({ point, assumed }) => `<p><b>${escape(point.id)}</b>: ${escape(assumed.join('; '))}.</p>`).join('\n')}
</details>
${table({
    caption: 'Why the others are not predicted.',
    head: ['reason', 'rows'],
    numeric: [1],
    rows: other.notCovered.map(({ why, rows }) => [escape(why), rows.length]),
  })}
<p class="source"><code>fixtures/published/others.json</code>, <code>fixtures/published/requests.json</code></p>
</section>
<section>
<h2>What is not covered</h2>
<ul>
<li><b>Few real cards.</b> Figures of an A40 and of A100s are here. The replay knows the multiprocessors of other cards and their capacities, but figures measured on them are not here yet.</li>
<li><b>Few families of models on them.</b> Those of Hugging Face are held to PyTorch on a virtual device; what real cards gave is here for GPT&#8209;2, GPT&#8209;BigCode, Mistral and Llama only.</li>
<li><b>Other tenants.</b> What else holds memory on your card is an input, not a prediction. The default is what one A40 had free.</li>
<li><b>The driver's addresses.</b> Which address a segment gets decides ties in the pool. A rule seen in traces is used. It can be off by a segment.</li>
<li><b>Data loaders, compilers, collectives.</b> <code>torch.compile</code>, CUDA graphs and communication buffers are not replayed.</li>
</ul>
</section>
</article>`;
}
