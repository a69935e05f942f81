// The post.
import { escape, gib, html, int, mib, percent, printed, table, times } from '../lib/format.mjs';
import { link, whatFits } from '../lib/element.mjs';
import { bar, barLegend, batchSweep, hooks, legend, mountain } from '../lib/pictures.mjs';
import { measuring } from './index-measuring.mjs';
import { fitting } from './index-fitting.mjs';

export const page = {
  file: 'index.html',
  title: 'Twenty fits, twenty-one does not',
  description: 'Where the GPU memory of one training step goes, byte by byte, and why arithmetic alone does not tell the largest batch.',
};

const base = { model: 'gpt2-from-scratch', 'seq-len': 1024, device: 'a40', unit: 'MiB' };

const hero = (F) => html`
<header class="hero">
<p class="kicker">The memory of one training step</p>
<h1>Twenty fits, twenty&#8209;one does&nbsp;not</h1>
<p class="standfirst">A small model, a large card, and a question with a surprising answer. Guess first; then follow every byte through one step, from the first lookup to the allocation that breaks the run.</p>
</header>
<section class="guess full" aria-labelledby="guess-title" data-peak="${F.peak}" data-weights="${F.weights}" data-state="${F.state}">
<div class="guess-plot">${mountain(F.step, { height: 300, bare: true, label: 'The shape of memory through one training step: a steep climb in the forward pass, a spike, a slower descent in the backward pass. No scale is shown.' })}<p class="guess-mark" aria-hidden="true" hidden></p></div>
<div class="guess-card">
<h2 id="guess-title">How tall is this mountain?</h2>
<p>It is the memory of one training step of GPT&#8209;2 small: ${int(F.parameters)} parameters, fp32, AdamW, 8 sequences of 1,024 tokens. How much does it need at its highest?</p>
<form class="guess-form" hidden>
<label for="guess-range">Your guess</label>
<input id="guess-range" type="range" min="0" max="100" step="1" value="39">
<span class="guess-number"><input id="guess-number" type="text" inputmode="decimal" autocomplete="off" value="1.5" aria-label="Your guess in GiB" aria-describedby="guess-error"> <span aria-hidden="true">GiB</span></span>
<button type="submit">Show me</button>
<p id="guess-error" class="error" hidden></p>
</form>
<p class="guess-answer" role="status"></p>
<noscript><p><strong>${gib(F.peak)} GiB.</strong> The weights alone are ${gib(F.weights)} GiB.</p></noscript>
</div>
</section>`;

const owns = (F) => html`
<section>
<h2>What the model owns: 16 bytes per parameter</h2>
<p>Some memory is needed whatever the data. Each parameter is a number of 4 bytes. Training adds a gradient for it, another 4. AdamW keeps two running averages for it, of the gradient and of its square: 8 more.</p>
<figure class="bytes" role="img" aria-label="Sixteen bytes of one parameter: four of weight, four of gradient, four of the first moment, four of the second.">
${['weight', 'gradient', 'Adam m', 'Adam v'].map((name, i) => `<div class="word w${i}"><i></i><i></i><i></i><i></i><span>${name}</span></div>`)}
</figure>
<p>That makes 16 bytes per parameter, ${mib(F.state, 1)} MiB for this model. The embedding at the input and the head at the output share one matrix, so it counts once.</p>
<p>All of it can be checked on a card, line by line. Here is what PyTorch's counter did on an A40, beside what the replay on this page says it does:</p>
${table({
    caption: 'Memory after each line of the script, two steps, batch 8. MiB.',
    head: ['after', 'card', 'replay'],
    numeric: [1, 2],
    rows: [
      ['a warm-up matmul: the library takes a workspace', `+${printed(F.measured.warmup)}`, `+${mib(F.eight.after_warmup.allocated, 1)}`],
      ['<code>model.cuda()</code>: weights, and causal masks', `+${printed(F.measured.model_cuda)}`, `+${mib(F.eight.after_model.allocated - F.eight.after_warmup.allocated, 1)}`],
      ['making the optimizer', printed(F.measured.optimizer_created), mib(F.eight.after_optimizer.allocated - F.eight.after_model.allocated)],
      ['the first <code>optimizer.step()</code>', `+${printed(F.measured.first_optimizer_step)}`, `+${mib(F.first.after_optimizer_step.allocated - F.first.after_backward.allocated, 1)}`],
      ['<code>zero_grad()</code>', printed(F.measured.zero_grad), mib(F.first.after_zero_grad.allocated - F.first.after_optimizer_step.allocated, 1)],
      ['the second <code>optimizer.step()</code>', printed(F.measured.second_optimizer_step), mib(F.second.after_optimizer_step.allocated - F.second.after_backward.allocated)],
    ],
  })}
<p>Adam's state does not exist until the first step ends. So the first step is not representative: its peak is ${mib(F.second.peak.allocated - F.first.peak.allocated)} MiB below the second's. When you measure, measure the second.</p>
<p>Try other optimizers. The blue part moves, and much less than one would think.</p>
${whatFits({ ...base, batch: 8, show: 'bar', controls: 'optimizer,precision' }, html`<p>At batch 8 this model needs ${mib(F.peak)} MiB at its peak. What it owns while it is computing is ${mib(F.before)} MiB of that, ${percent(F.before / F.peak)}.</p>${bar(F.eight, { total: F.peak, label: 'The peak as one bar, by kind of tensor.' })}${barLegend(F.eight)}`)}
</section>`;

const captions = {
  'layer norm output': 'outputs of both layer norms',
  'layer norm statistics': 'their means and deviations',
  'residual stream': 'the residual stream, after the MLP',
  'residual stream after attention': 'the residual stream, after attention',
  'MLP hidden layer, before GELU': 'MLP, before GELU',
  'MLP hidden layer, after GELU': 'MLP, after GELU',
  'attention probabilities': 'attention probabilities',
  'causal mask comparison': 'the mask, compared',
};
/** The four tensors of a token's width that attention packs for its two products. */
const packed = /^(left|right) operand|^attention output|^copy$/;

function blockTable(F) {
  const lines = new Map();
  for (const row of F.blockLines) {
    const name = packed.test(row.label) ? 'queries, keys, values, and the result of attention, as copies' : captions[row.label] ?? row.label;
    const line = lines.get(name) ?? { name, count: 0, bytes: 0, shapes: new Set() };
    line.count += row.count;
    line.bytes += row.bytes;
    line.shapes.add(row.shape.join(' × '));
    lines.set(name, line);
  }
  const rows = [...lines.values()].sort((a, b) => b.bytes - a.bytes);
  return table({
    caption: 'What one block keeps for the backward pass, from the ledger.',
    head: ['kept', 'tensors', 'MiB'],
    numeric: [1, 2],
    rows: [
      ...rows.map((r) => ({ cells: [escape(r.name), r.count, mib(r.bytes, 1)], className: r.name.startsWith('attention') ? 'strong' : '' })),
      { cells: ['one block', '', mib(rows.reduce((s, r) => s + r.bytes, 0), 1)], className: 'total' },
    ],
  });
}

const makes = (F) => html`
<section>
<h2>What the step makes: ${int(F.block / 2 ** 20)} MiB a block</h2>
<p>The second step starts with ${mib(F.before)} MiB on the card. When the forward pass is over there are ${mib(F.second.after_forward.allocated)}. One pass has put ${times(F.forward / F.before)} times as much on the card as the model and its optimizer.</p>
<p>The reason is the chain rule. The gradient of a product <i>y = xW</i> with respect to <i>W</i> contains <i>x</i>. So <i>x</i> has to stay until the backward pass comes by, and it comes last to what was computed first. Every layer leaves its inputs behind; they pile up. These are the <em>activations</em>.</p>
<aside class="note"><p>Weights are paid once. Activations are paid for every token of every sequence. That is why the batch is the lever.</p></aside>
<p>Each of the 12 blocks adds the same ${mib(F.block, 1)} MiB. Half of it is one tensor:</p>
${blockTable(F)}
<p>The attention probabilities hold one number for every pair of tokens, for every head. All else in a block grows with the length of the text. This grows with its square. Drag the length below and watch the green part.</p>
${whatFits({ ...base, batch: 8, show: 'verdict,bar', controls: 'batch,seq-len,attention' }, html`<p>At half the length, 512 tokens, the same card holds ${F.got.fitHalf.largest_batch} sequences, not ${F.largest}.</p>${bar(F.eight, { total: F.peak, label: 'The peak as one bar, by kind of tensor.' })}${barLegend(F.eight)}`)}
</section>`;

const climbs = (F) => html`
<section>
<h2>The mountain</h2>
<p>Forward lays block upon block. Backward takes them off from the top, and leaves gradients. The summit stands where one turns into the other. This is the step, event by event: ${int(F.step.events.length)} allocations and frees. Drag the batch; move the cursor; look at what is alive.</p>
${whatFits({ ...base, batch: 8, show: 'mountain', controls: 'batch' }, html`<p>Memory through one step at batch 8; the peak is ${mib(F.peak)} MiB, in the backward of the loss.</p>${mountain(F.step, { label: 'Memory through one training step by kind of tensor, with the peak marked.' })}${legend()}`)}
</section>
<section>
<h2>The summit: four tensors the size of the vocabulary</h2>
<p>The highest point belongs to no layer. At the end the model gives each token a score for each of the ${int(F.published.model.vocab_size)} words it knows. Those scores, the logits, are 8 × 1,024 × ${int(F.published.model.vocab_size)} numbers: ${mib(F.logits, 1)} MiB, more than ${times(F.logits / F.weights)} times the weights.</p>
<p>Then the loss goes to work. It stores their log-softmax: another tensor of that size. The backward of the loss makes the gradient of that: a third. The backward of the log-softmax makes the gradient of the logits: a fourth, while the other three are still alive. Its request, ${int(F.eight.peak.at.requested)} bytes, is the one that sets the peak. The trace of a real card names the same operator and the same number.</p>
${table({
    caption: 'The peak of the second step, in three lines. MiB.',
    head: ['at the peak', 'MiB', 'share'],
    numeric: [1, 2],
    rows: [
      ['weights, Adam, masks, workspaces', mib(F.before), percent(F.before / F.peak)],
      ['kept by the blocks, the embedding and the last norm', mib(F.kept), percent(F.kept / F.peak)],
      ['four vocabulary-sized tensors', mib(F.vocabulary), percent(F.vocabulary / F.peak)],
      { cells: ['all', mib(F.peak), ''], className: 'total' },
    ],
  })}
<p>The part one expects to matter is the smallest. The ledger below has every tensor of the peak; sort it, or filter it.</p>
${whatFits({ ...base, batch: 8, show: 'ledger' }, html`<p>The four largest entries of the ledger at the peak are the logits, the log-probabilities and their two gradients, ${mib(F.logits, 1)} MiB each. <a href="${link({ model: base.model, batch: 8, 'seq-len': 1024 })}">The whole ledger is in the calculator.</a></p>`)}
</section>`;

export function render(F) {
  return html`<article>${hero(F)}${owns(F)}${makes(F)}${climbs(F)}${measuring(F, { base, hooks })}${fitting(F, { base, batchSweep })}</article>`;
}
