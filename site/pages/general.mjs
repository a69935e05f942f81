// The other account: one formula for any decoder.
import { escape, gb, html, int, mib, percent, printed, table } from '../lib/format.mjs';
import { account, publishedShapes, standardShapes } from '../lib/account.mjs';
import { whatFits } from '../lib/element.mjs';

export const page = {
  file: 'general.html',
  title: 'The general account',
  description: 'One formula for the memory of training any transformer decoder, as a live table, and where it is right and wrong.',
};

const mi = (x) => `<mi>${x}</mi>`;
const mo = (x) => `<mo>${x}</mo>`;
const mn = (x) => `<mn>${x}</mn>`;
const row = (...xs) => `<mrow>${xs.join('')}</mrow>`;
const sup = (x, n) => `<msup>${mi(x)}${mn(n)}</msup>`;
const math = (label, inner) => `<div class="math" tabindex="0" role="group" aria-label="formula, scrolls sideways"><math display="block" aria-label="${label}">${row(...inner)}</math></div>`;

const formula = math('memory equals 16 N plus s times the sum of B T d, L times 16 B T d plus 2 B h T squared, and B T V', [
  mi('M'), mo('='), `<munder>${row(mn(16), mi('N'))}<mtext>state</mtext></munder>`, mo('+'), mi('s'), mo('('),
  `<munder>${row(mi('B'), mi('T'), mi('d'))}<mtext>embedding</mtext></munder>`, mo('+'),
  `<munder>${row(mi('L'), mo('('), mn(16), mi('B'), mi('T'), mi('d'), mo('+'), mn(2), mi('B'), mi('h'), sup('T', 2), mo(')'))}<mtext>layers</mtext></munder>`, mo('+'),
  `<munder>${row(mi('B'), mi('T'), mi('V'))}<mtext>logits</mtext></munder>`, mo(')'),
]);

const size = (bytes) => (bytes >= 1e12 ? `${(bytes / 1e12).toFixed(2)} TB` : `${gb(bytes, bytes < 1e10 ? 2 : 1)} GB`);

function liveTable(id, caption, shapes, setting, budget) {
  const head = ['model', 'parameters', 'weights', 'activations', 'gradients and Adam', 'total', 'budget'];
  return html`<div class="scroll" tabindex="0" role="region" aria-label="${escape(caption)}"><table>
<caption><span>${caption}</span></caption>
<thead><tr>${head.map((h, i) => `<th scope="col"${i > 0 && i < 6 ? ' class="n"' : ''}>${h}</th>`)}</tr></thead>
<tbody>${shapes.map(([name, shape]) => {
    const a = account(shape, setting);
    const fits = a.total <= budget;
    return `<tr data-n="${shape.n}" data-l="${shape.l}" data-d="${shape.d}" data-h="${shape.h}" data-v="${shape.v}"><th scope="row">${name}</th>` +
      `<td class="n">${int(shape.n / 1e6)} M</td>${[a.weights, a.kept, a.rest, a.total].map((x) => `<td class="n">${size(x)}</td>`).join('')}` +
      `<td class="${fits ? 'ok' : 'bad'}">${fits ? '✓ within' : '✕ over'}</td></tr>`;
  })}</tbody></table></div>`;
}

const controls = (id, s) => html`<form class="controls" aria-label="Setting of the table of ${id === 'std' ? 'standard shapes' : 'published configurations'}">
<label for="${id}-batch">Sequences, B<input id="${id}-batch" name="batch" type="text" inputmode="numeric" autocomplete="off" value="1"></label>
<label for="${id}-length">Tokens each, T<input id="${id}-length" name="tokens" type="text" inputmode="numeric" autocomplete="off" value="2048"></label>
<label for="${id}-bytes">Activations<select id="${id}-bytes" name="bytes"><option value="4"${s === 4 ? ' selected' : ''}>fp32, 4 bytes</option><option value="2"${s === 2 ? ' selected' : ''}>16 bits, 2 bytes</option></select></label>
<label for="${id}-budget">Budget, GB<input id="${id}-budget" name="budget" type="text" inputmode="decimal" autocomplete="off" value="8"></label>
<p class="error" role="status" hidden>Batch and length are whole numbers above zero, the budget a number of GB; the table keeps its last good state.</p>
</form>`;

export function render(F) {
  const standard = standardShapes(F.account);
  const forty = account(standard[1][1], { B: 1, T: 2048, s: 4 });
  const mlx = F.account.measured_mlx.rows[0];
  const general = F.got.explain.general_account;
  const seven = standard[5][1];
  const qwen = F.account.measured_qwen.rows;
  return html`<article>
<header class="hero">
<p class="kicker">On the back of an envelope</p>
<h1>One formula for any decoder</h1>
<p class="standfirst">Before replaying anything: how far does simple counting get? Surprisingly far, for reasons that are not all good.</p>
</header>
<section>
<h2>Count in the order of training</h2>
<p>Take a decoder with <i>L</i> layers of width <i>d</i>, <i>h</i> heads and a vocabulary of <i>V</i> words; feed it <i>B</i> sequences of <i>T</i> tokens. Let each stored activation take <i>s</i> bytes: 4 in fp32, 2 in sixteen bits. Sizes on this page are decimal: a GB is 10<sup>9</sup> bytes.</p>
<p><b>State.</b> With Adam in fp32, 4 bytes of weight, 4 of gradient and 8 of moments: 16 for each of <i>N</i> parameters. The usual mixed recipe gets there too: 2 for the working weight, 2 for its gradient, 4 for the fp32 copy, 8 for the moments.</p>
<p><b>Activations of a layer.</b> In values per token: both norms leave their output, 2<i>d</i>. Attention leaves queries, keys and values, the mixed values and the projection, 5<i>d</i>. The feed-forward part leaves its wide layer before and after the non-linearity and comes back down, 4 + 4 + 1 = 9<i>d</i>. That is 16<i>d</i>. On top come two tensors of <i>T</i> × <i>T</i> per head, scores and probabilities.</p>
<p><b>The ends.</b> The embedding once, and the logits once. Together:</p>
${formula}
<p>And if <i>N</i> is not known, two embeddings and the layers' matrices give it nearly:</p>
${math('N is about 2 V d plus 12 L d squared', [mi('N'), mo('≈'), mn(2), mi('V'), mi('d'), mo('+'), mn(12), mi('L'), sup('d', 2)])}
</section>
<section>
<h2>Sizes, live</h2>
<p>Standard shapes of round sizes. Change the batch, the length, the bytes; set the budget to what your machine leaves you.</p>
<div class="wide" data-account>
${controls('std', 4)}
${liveTable('std', 'Memory of training standard shapes with Adam in fp32, by the formula. Decimal GB.', standard, { B: 1, T: 2048, s: 4 }, 8e9)}
</div>
<p class="source">The shapes of 40 M and 100 M are inferred from printed terms of the published account; the 7 B one is its example; the others are ours, made to come out at the round number. None is a particular model.</p>
<p>Play with it for a minute and three things show. State grows with the parameters alone, so the batch does nothing to it. At small sizes the activations rule. And two settings with equal numbers of tokens differ: 8 × 2,048 and 16 × 1,024 have the same <i>BT</i>, but the first has twice the <i>BT</i><sup>2</sup>.</p>
</section>
<section>
<h2>Configurations people use</h2>
<p>The same formula with published configurations. It knows nothing of grouped queries, gated layers or RMSNorm, so read the middle column as a scale, not a prediction.</p>
<div class="wide"><div data-account>
${controls('pub', 2)}
${liveTable('pub', 'Published configurations, full training with Adam, by the formula. Decimal GB.', publishedShapes(F.models), { B: 1, T: 2048, s: 2 }, 8e9)}
</div></div>
</section>
<section>
<h2>Held against measurements</h2>
<p>On an Apple M2 with 8 GB the 40 M shape was trained in MLX at 2,048 tokens. The formula says ${gb(forty.total, 3)} GB; the machine's peak was ${printed(mlx)} GB. The formula is ${percent(forty.total / mlx.bytes - 1)} above it.</p>
${table({
    caption: 'Full training of a 7 B model on two 80 GB cards, as its makers report it, beside the formula for a 7 B shape at batch 1. GB.',
    head: ['tokens', 'reported, both cards', 'formula'],
    numeric: [0, 1, 2],
    rows: qwen.map((r) => [int(r.seq_len), printed(r), gb(account(seven, { B: 1, T: r.seq_len, s: 2 }).total)]),
  })}
<p>Same neighbourhood, other slope: the reported run grows by ${gb(qwen[2].bytes - qwen[0].bytes)} GB over this range, the formula by ${gb(account(seven, { T: 1024, s: 2 }).total - account(seven, { T: 256, s: 2 }).total)}. The report says neither batch nor counter.</p>
</section>
<section>
<h2>Right for the wrong reasons</h2>
<p>Now the run of <a href="index.html">the post</a>: GPT&#8209;2 small, batch 8, 1,024 tokens. The formula gives ${mib(general.total)} MiB. A card gave ${mib(F.peak)}. That is ${percent(general.total / F.peak - 1, 1)} off: remarkable. Look at its parts:</p>
${table({
    caption: 'The same run by formula and by replay, MiB at the peak.',
    head: ['part', 'formula', 'replay'],
    numeric: [1, 2],
    rows: [
      ['weights and Adam', mib(general.lines[0].bytes + general.lines[3].bytes), mib(F.weights + F.adam)],
      ['gradients', mib(general.lines[1].bytes), mib(F.eight.categories.gradients)],
      ['attention, <i>T</i>²', mib(general.lines[6].bytes), mib(F.eight.categories.attention)],
      ['other activations', mib(general.lines[4].bytes + general.lines[5].bytes), mib(F.eight.categories.activations)],
      ['vocabulary-sized', mib(general.lines[7].bytes), mib(F.eight.categories.logits)],
      ['masks, workspaces, rounding', '0', mib(F.eight.categories.buffers + F.eight.categories.workspaces + F.eight.categories.rounding)],
      { cells: ['all', mib(general.total), mib(F.peak)], className: 'total' },
    ],
  })}
<p>It counts two square tensors per head where this code keeps one. It counts one tensor of vocabulary size where four are alive. It counts gradients that do not exist yet when the peak comes. The first error is too much, the second too little, and at this shape they meet in the middle. Halve the length and they part.</p>
<p>So the formula is for orders of magnitude, and for seeing what grows with what. For the question whether 20 or 21 sequences fit, replay:</p>
${whatFits({ model: 'gpt2-from-scratch', batch: 8, 'seq-len': 1024, device: 'a40', unit: 'GB', show: 'verdict,bar,mountain', controls: 'batch,seq-len,precision,attention' }, `<p>By replay this run needs ${gb(F.peak, 2)} GB at its peak, and PyTorch takes ${gb(F.eight.peak.reserved, 2)} GB from the card.</p>`)}
</section>
<section>
<h2>What bends the formula</h2>
<ul>
<li><b>Checkpointing</b> keeps one tensor per layer and computes the rest again.</li>
<li><b>Fused attention</b> never stores the square tensors. The arithmetic stays quadratic, the memory does not.</li>
<li><b>A fused loss</b> never stores the logits.</li>
<li><b>Sharding</b> divides state among cards. Plain data parallelism does not: each card has everything.</li>
<li><b>Adapters</b> such as LoRA freeze the weights: no gradients and no moments for most of <i>N</i>.</li>
<li><b>Other blocks</b> have other constants: gated layers, RMSNorm, experts, dropout.</li>
</ul>
<p class="source">After a published first-order account of training memory; its formula, its example and its measured rows are in <code>fixtures/published/general-account.json</code>. The words and the code are ours.</p>
</section>
</article>`;
}
