// The post, second part: how a measurement misses the peak.
import { gib, html, int, mib } from '../lib/format.mjs';

export function measuring(F, { hooks }) {
  const missed = F.peak - F.largestReading.allocated;
  return html`
<section>
<h2>What a reading between layers never sees</h2>
<p>The usual way to look inside is to read the counter between layers. Below, each dot is such a reading, ${F.readings.length} of them: before and after every block, forward and backward. The grey shape is what happened.</p>
<figure class="wide">
${hooks(F.step, F.readings, { label: `Readings between blocks on top of the true curve. The highest reading is ${gib(F.largestReading.allocated)} GiB, the true peak ${gib(F.peak)} GiB.` })}
<figcaption>One step of GPT&#8209;2 small at batch 8. Dots: the counter, read where one layer ends and the next begins. Shape: every allocation and free between.</figcaption>
</figure>
<p>The dots trace the shape well and miss the summit by ${mib(missed)} MiB, ${gib(missed)} GiB. Two of the four large tensors are born and die inside the backward of the loss, between one dot and the next. No hook stands there.</p>
<p>Two things do see it: <code>torch.cuda.max_memory_allocated()</code>, which is a high-water mark and not a sample, and the allocator's own history. The replay is of the second kind. It has no sampling rate to choose.</p>
<aside class="note"><p>The small teeth on the way up are real too. Inside a block the scores, the masked scores and the probabilities are alive together for a moment, as the code gives a name to each and Python keeps what has a name until the function returns.</p></aside>
<p>${int(F.step.events.length)} events are little to a computer. The whole step is replayed each time you move a slider here.</p>
</section>`;
}
