// Everything on.
import { gib, html } from '../lib/format.mjs';
import { mountain, legend } from '../lib/pictures.mjs';

export const page = {
  file: 'calculator.html',
  wide: true,
  title: 'What fits? The calculator',
  description: 'Predicts the memory of a PyTorch training run to the byte: peak, timeline, ledger, largest batch and what to change. In your browser.',
};

export const render = (F) => html`<h1>What fits?</h1>
<p class="standfirst">Describe a training run. It is replayed here, allocation by allocation, against the memory of a card. Drop a <code>config.json</code> anywhere on the calculator to use your model's shape, or a memory snapshot of PyTorch to lay your own run over the prediction. The address keeps what you set: copy it to share.</p>
<h2 class="hidden">The run</h2>
<what-fits standalone model="gpt2-from-scratch" batch="8" seq-len="1024" device="a40" show="verdict,bar,mountain,controls,sweep,ledger,advice,segments,measured,import,export">
<p>GPT&#8209;2 small, batch 8, 1,024 tokens, fp32, AdamW: ${gib(F.peak)} GiB at the peak. The largest batch that an A40 holds is ${F.largest}. With JavaScript and WebAssembly this page answers for your run.</p>
${mountain(F.step, { label: 'Memory through one training step of GPT-2 small at batch 8.' })}${legend()}
</what-fits>`;
