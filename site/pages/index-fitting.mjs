// The post, last part: the largest batch, the pool, and what helps.
import { escape, gib, html, int, mib, percent, table } from '../lib/format.mjs';
import { whatFits } from '../lib/element.mjs';
import { poolRows } from '../lib/pictures.mjs';

const pairs = (F) => {
  const of = (b) => F.sweep[b - 1].report;
  const measured = (b, key) => F.published.figures.find((f) => f.id === `batch${b}_${key}`);
  return [16, 18, 20].map((b) => [
    b, int(measured(b, 'allocated').value_printed), mib(of(b).peak.allocated), int(measured(b, 'reserved').value_printed), mib(of(b).peak.reserved),
  ]);
};

function poolPicture(F) {
  const { pool, failing } = F;
  const [spoilt, ...whole] = [pool.spoilt, ...pool.large.filter((s) => s !== pool.spoilt)];
  const of = (s) => s.blocks.find((b) => b.allocated && b.size > s.size / 2)?.label ?? '';
  return [
    { ...pool.home, name: `${mib(pool.home.size)} MiB: optimizer state moved in` },
    { ...spoilt, name: `${mib(spoilt.size)} MiB: attention of block ${pool.invader.layer + 1} moved in, ${mib(pool.left)} left` },
    ...whole.map((s) => ({ ...s, name: `${mib(s.size)} MiB: ${of(s)}` })),
    { size: failing.requested, missing: true, room: failing.free, name: `${mib(failing.requested)} MiB more are asked for, ${mib(failing.free)} are free` },
  ];
}

export function fitting(F, { base, batchSweep }) {
  const twenty = F.sweep[19].report;
  const oom = F.failing;
  const grown = F.second.peak.reserved - F.second.after_forward.reserved;
  const single = F.advice.advice.filter((a) => !a.pair);
  const advice = single.filter((a) => a.largest_batch > F.largest);
  const nothing = single.filter((a) => a.largest_batch <= F.largest);
  const pair = F.advice.advice.find((a) => a.pair && a.effect === 'same');
  return html`
<section>
<h2>Arithmetic says ${F.straightBatch}. The card says ${F.largest}.</h2>
<p>With the ledger in hand the largest batch seems a division. What grows with the batch is ${mib(F.peak - F.before)} MiB for 8 sequences, ${mib(F.sequence)} for one. The card has ${mib(F.free)} MiB free, ${mib(F.before)} are taken. So:</p>
<p class="formula">(${mib(F.free)} − ${mib(F.before)}) ÷ ${mib(F.sequence)} = ${((F.free - F.before) / F.sequence).toFixed(1)}, so batch ${F.straightBatch}</p>
<p>Run it, each batch in a process of its own, and ${F.largest} is the last that lives. ${F.largest + 1} dies in its second step. The slope was right; the answer is two short.</p>
<figure class="wide">
${batchSweep(F.sweep, { free: F.free, fixed: F.before, perSequence: F.sequence, label: `Peak memory against the batch: allocated grows in a straight line and would reach the limit at ${F.straightBatch}; reserved lies above it and reaches the limit after ${F.largest}.` })}
<figcaption>Each batch from 1 to 24, replayed. The dashed line is the arithmetic. The upper line is what PyTorch takes from the card; a cross is a run that failed.</figcaption>
</figure>
${table({
    caption: 'Three batches on the card and in the replay. Peaks in MiB.',
    head: ['batch', 'allocated, card', 'replay', 'reserved, card', 'replay'],
    numeric: [0, 1, 2, 3, 4],
    rows: pairs(F),
  })}
<p>Move the length, too. The map below is the same question asked for every pair.</p>
${whatFits({ ...base, batch: 20, show: 'verdict,sweep', controls: 'batch,seq-len' }, `<p>At 1,024 tokens the largest batch is ${F.largest}; at 512 it is ${F.got.fitHalf.largest_batch}.</p>`)}
</section>
<section>
<h2>Where the two went: allocated and reserved</h2>
<p>Asking the device for memory is slow. So PyTorch does not give it back: a block that is freed goes to a pool, and the next request is served from there if a piece is large enough. What is alive is <em>allocated</em>. What the pool holds is <em>reserved</em>. At batch ${F.largest} the second peaks ${percent(twenty.peak.reserved / twenty.peak.allocated - 1)} above the first.</p>
<p>Here is the message of batch ${F.largest + 1}, word for word as PyTorch writes it:</p>
<pre class="message"><code>${escape(oom.message)}</code></pre>
<p>There are ${gib(oom.free)} GiB free and ${gib(oom.cached_free)} GiB in the pool: together far more than was asked. Yet the largest piece of the pool is ${gib(oom.largest_piece)} GiB, and pieces join only inside the segment that they were cut from.</p>
<h3>Why the pool is in pieces</h3>
<p>A card's counters cannot tell. The replay can, as it knows every segment and who lives in it. The first step of batch ${F.largest + 1} goes well. It leaves a pool of cached segments: ${F.pool.freeAfter} of logits size, ${mib(F.pool.large[0].size)} MiB each, and ${F.pool.blocks} of attention size, ${mib(F.pool.home.size)} MiB each. Nearly all of it is free for the second.</p>
<p>Nearly. At the end of the first step the optimizer makes its state, for the first time. It takes what is cached: of its ${mib(F.adam)} MiB, ${mib(F.pool.homeState)} settle in one of the attention segments. They stay for the rest of the run. So in the second step the blocks find one segment too few. The last block's probabilities go to the next larger home: a segment of logits size. And then the loss wants four of those.</p>
<ol class="story">
<li><b>Step 1, backward.</b> ${F.pool.freeAfter} segments of logits size: full, then free.</li>
<li><b>Step 1, optimizer.</b> Adam's state moves into a segment of attention size, for good.</li>
<li><b>Step 2, forward.</b> The probabilities of block ${F.pool.invader.layer + 1} find theirs taken and move into a segment of logits size. ${gib(F.pool.left)} GiB of it are left.</li>
<li><b>Step 2, backward.</b> Three large tensors find homes. The fourth asks the card for ${gib(oom.requested)} GiB. The card has ${gib(oom.free)}.</li>
</ol>
<figure class="wide">
${poolRows(poolPicture(F), { label: `Segments of the pool when batch ${F.largest + 1} fails: one of attention size with optimizer state in it, one of logits size that the last block's attention probabilities have moved into, three of logits size full, and a fourth that the card has no room for.` })}
<figcaption>The pool of batch ${F.largest + 1} when it fails; ${F.pool.blocks - 1} other segments of attention size are not drawn. Filled is alive, outlined is cached. The dashed one would be needed; shaded is what the card has left.</figcaption>
</figure>
<p>At batch 8 the same happens, and there is room: the pool grows by ${mib(grown)} MiB in the second step, one more segment of logits size, rounded up to the 2 MiB in which PyTorch takes memory. Batch ${F.largest} just has that room. ${F.largest + 1} has not.</p>
<p>Look into the pool yourself. Each row is a segment; what is filled is alive.</p>
${whatFits({ ...base, batch: F.largest + 1, show: 'segments', controls: 'batch' }, `<p>At batch ${F.largest + 1} the run ends in step ${oom.step}, in the backward of the loss: ${gib(oom.requested)} GiB are asked for, ${gib(oom.free)} are free, and the largest cached piece has ${gib(oom.largest_piece)}.</p>`)}
<p>From the second step on nothing changes: the pool at the end of step ${F.eight.settled.step + F.eight.settled.period} equals, block for block, the pool at the end of step ${F.eight.settled.step}. That is how the replay knows that batch ${F.largest} fits for ever, and not only for the steps it looked at.</p>
<p>There is a setting for this. <code>expandable_segments</code> lets a segment grow where it stands, so that pieces do not come about. With it, ${F.got.fitExpandable.largest_batch} fits.</p>
</section>
<section>
<h2>What each technique buys</h2>
<p>Start from batch ${F.largest + 1}, the one that fails. Each line changes one thing and replays the run.</p>
${table({
    caption: `What one change does to GPT&#8209;2 small on an A40. Saved: reserved memory at batch ${F.largest + 1}, MiB, on a card without limit.`,
    head: ['change', 'largest batch', 'saved', 'the price'],
    numeric: [1, 2],
    rows: advice.map((a) => [escape(a.title), a.largest_batch, mib(a.saves), escape(a.cost)]),
  })}
<p>Two lines stand out. Fused attention costs nothing and lifts the batch from ${F.largest} to ${F.got.fitFused.largest_batch}, because half of every block was one tensor that it never stores. And autocast, which everybody tries first, is worth far less than half: the weights stay in fp32, and so do the softmax's results.</p>
${pair && html`<p>Two changes at once need not come to the sum of both, so the calculator tries them together as well. The best pair that leaves the result as it is: <em>${escape(pair.name)}</em>, which runs ${pair.largest_batch} sequences.</p>`}
${nothing.length > 0 && html`<p>What does not help is as useful to know. ${nothing.map((a) => `<em>${escape(a.title[0].toUpperCase() + a.title.slice(1))}</em>`).join('; ')}: the batch stays at ${F.largest}. They take nothing off the four tensors of the loss, and those need the room.</p>`}
${whatFits({ ...base, batch: F.largest + 1, show: 'verdict,advice', controls: 'batch,optimizer,precision,attention,checkpointing' }, '<p>The calculator applies each of these with one button.</p>')}
</section>
<section>
<h2>What to keep</h2>
<ul class="keep">
<li>The model is the small part. ${percent(1 - F.before / F.peak)} of the peak is what the step makes.</li>
<li>The peak is at the turn from forward to backward, inside the loss, and lasts an instant. Read high-water marks, not samples.</li>
<li>A large vocabulary costs four tensors of its size.</li>
<li>The limit is what the pool reserves, not what lives. The second step decides.</li>
</ul>
<p>All of it holds for one model on one card, and for yours it will differ. <a href="calculator.html">Open the calculator</a>, drop in a <code>config.json</code>, and see. How often it has been right is on <a href="accuracy.html">the accuracy page</a>; how it works is <a href="method.html">here</a>.</p>
<p class="source">The card's figures are those of a published experiment: one A40, PyTorch 2.5.1, ${mib(F.free)} MiB free at the start. The replay's are computed when these pages are built, by the code that runs in them.</p>
</section>`;
}
