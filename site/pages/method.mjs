// How it works.
import { html, int, mib } from '../lib/format.mjs';

export const page = {
  file: 'method.html',
  title: 'A PyTorch that computes nothing',
  description: 'How the prediction is made: a training step replayed over tensors without values, against the allocator of PyTorch.',
};

export const render = (F) => html`<article>
<header class="hero">
<p class="kicker">Method</p>
<h1>A PyTorch that computes&nbsp;nothing</h1>
<p class="standfirst">Memory does not depend on what the numbers are. So leave out the numbers, keep everything else, and run the step.</p>
</header>
<section>
<h2>Not an estimate</h2>
<p>Most calculators add up formulas. This one runs the training script. It is written in C++ in the shape in which people write it in Python, over tensors that have a shape, a type and a life, and no values. A tensor is born where PyTorch would make it. It dies when its last name goes, or when the backward pass lets go of it.</p>
<ol class="story">
<li><b>Script.</b> Your request chooses model code, precision, optimizer, loop. The script runs over symbolic tensors.</li>
<li><b>Program.</b> Out comes a list of events: allocate so much, for this operator; free that. One step of GPT&#8209;2 small has ${int(F.step.events.length)}.</li>
<li><b>Replay.</b> The list goes through a caching allocator with PyTorch's rules, over a device with a stated number of bytes.</li>
<li><b>Answer.</b> The peak, what was alive there, what the pool held, whether it fits, and for how long.</li>
</ol>
</section>
<section>
<h2>Operators</h2>
<p>Each operator has one definition: the shape of its result, what it saves for the backward pass, and which temporaries it makes, in which order. The orders were read from PyTorch's sources and checked against event streams of PyTorch. They matter. A temporary that is freed one event earlier leaves another hole.</p>
<p>Some sizes depend on the card. Summing a bias gradient splits the work over the multiprocessors, and the buffer for the partial sums follows. So the card's number of multiprocessors is an input.</p>
</section>
<section>
<h2>The allocator</h2>
<p>Requests are rounded up to 512 bytes. Up to 1 MiB they come from small segments of 2 MiB; below 10 MiB from segments of 20; larger ones get a segment of their own, rounded up to 2 MiB. A free piece is taken if it is the smallest that will do; what is left over is split off if it is worth it. Freed neighbours merge, inside their segment. Nothing returns to the device until a request fails; then every segment that is wholly free does, and the request is tried once more.</p>
<p>From these few rules come fragmentation, retries, and the batch at which the run dies.</p>
</section>
<section>
<h2>When is it allowed to say “fits”?</h2>
<p>A run that survives three steps may fail in the fourth. So the allocator's whole state is compared at the end of each step: all segments, all blocks, all addresses. When a state recurs the future is known, as every step does the same. GPT&#8209;2 small settles at step ${F.eight.settled.step}. That proves the batch. Some scripts of Hugging Face&rsquo;s shuffle small tensors for longer: after 64 steps such a run counts as fitting if it gave nothing back to the card in the last 32 and a thousand more fit at their pace, and the answer says that it is not proved.</p>
<p>Fragmentation is not monotone: a batch may fit where a smaller one does not. The search therefore replays the eight batches below its answer too, and stays under the lowest failure it has seen.</p>
</section>
<section>
<h2>What is assumed</h2>
<ul>
${F.eight.assumptions.map((a) => `<li>${a[0].toUpperCase()}${a.slice(1)}.</li>`)}
</ul>
<p>GPT&#8209;2 small at batch 8 then peaks at ${mib(F.peak)} MiB allocated and ${mib(F.eight.peak.reserved)} reserved. <a href="accuracy.html">How right that has been</a> is a page of its own.</p>
</section>
<section>
<h2>The same bytes everywhere</h2>
<p>The browser runs the same C++ as the command line, compiled to WebAssembly. A test asks both every question and compares the answers byte for byte. The figures in the prose of these pages are asked of it when they are built. Nothing that you type leaves the page.</p>
</section>
</article>`;
