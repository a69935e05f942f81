// How to put it into a post.
import { escape, gib, html, table } from '../lib/format.mjs';
import { whatFits } from '../lib/element.mjs';

export const page = {
  file: 'embedding.html',
  title: 'Put it into your post',
  description: 'One script, one tag: plain HTML, Quarto, Jekyll, Hugo, or an iframe.',
};

const code = (text) => `<pre tabindex="0"><code>${escape(text)}</code></pre>`;

export const render = (F) => {
  const sentence = `<p>GPT-2 small, batch 8: <strong>${gib(F.peak)} GiB</strong> at the peak.</p>`;
  return html`<article>
<header class="hero">
<p class="kicker">For authors</p>
<h1>One script, one&nbsp;tag</h1>
<p class="standfirst">The calculator is one file with the WebAssembly inside. It needs no server, no build, no headers, and asks nobody for anything. Copy it beside your post. Only with <code>show="measured"</code>, where readers may drop a snapshot of their own run, copy <code>what-fits-snapshot.js</code> too.</p>
</header>
<section>
<h2>Plain HTML</h2>
${code(`<script src="what-fits.js" defer></script>

<what-fits model="gpt2-from-scratch" batch="8" seq-len="1024"
           show="verdict,bar,mountain,controls" controls="batch,seq-len">
  ${sentence}
</what-fits>`)}
<p>What you put inside the tag is shown where no script runs: in feeds, in print, to search engines, and when WebAssembly is off. Write your answer there.</p>
${F.integrity && html`<p>To pin the file, add its hash:</p>${code(`<script src="what-fits.js" defer crossorigin="anonymous"
  integrity="${F.integrity}"></script>`)}<p>The second script, which reads memory snapshots, is then loaded by its own hash, which the first one knows. A script from another host needs CORS there if you give a hash. Without a hash it does not.</p>`}
${whatFits({ model: 'gpt2-from-scratch', batch: 8, 'seq-len': 1024, show: 'verdict,bar', controls: 'batch,seq-len' }, sentence)}
</section>
<section>
<h2>Attributes</h2>
<p>Keys of a request are attributes, in kebab-case, the same as in links and on the command line: <code>model</code>, <code>batch</code>, <code>seq-len</code>, <code>precision</code>, <code>attention</code>, <code>optimizer</code>, <code>checkpointing</code>, <code>device</code> and the rest. Parts of an object have a dot: <code>allocator.expandable-segments</code>. And:</p>
${table({
    caption: 'Attributes of the element itself.',
    head: ['attribute', 'what it does'],
    rows: [
      ['<code>show</code>', 'panels, in any number: <code>verdict</code>, <code>bar</code>, <code>mountain</code>, <code>controls</code>, <code>sweep</code>, <code>ledger</code>, <code>advice</code>, <code>segments</code>, <code>import</code>, <code>export</code>'],
      ['<code>controls</code>', 'which settings a reader may change: <code>batch,seq-len</code>; without it all, if <code>show</code> has <code>controls</code>'],
      ['<code>unit</code>', '<code>GiB</code>, <code>MiB</code> or <code>GB</code>'],
      ['<code>standalone</code>', 'for a page of its own: reads and writes <code>#v=1&amp;…</code>. In a post leave it out; the address is yours'],
    ],
  })}
<p>Events: <code>wf-change</code> when a reader changes something, <code>wf-report</code> with each new answer. Colours and fonts follow the page, and custom properties that begin with <code>--wf-</code> set them; dark follows <code>color-scheme</code>.</p>
</section>
<section>
<h2>Quarto</h2>
<p>Copy the folder <code>_extensions/what-fits</code> of the package beside your <code>_quarto.yml</code>. Then, in a post:</p>
${code(`{{< what-fits model="gpt2-from-scratch" batch="8" seq-len="1024"
   show="verdict,bar,controls" controls="batch"
   text="GPT-2 small needs ${gib(F.peak)} GiB at batch 8." picture="peak.png" >}}`)}
<p>In a web page this is the element, with the sentence and the picture as its fallback. In PDF, EPUB and Word it is the sentence and the picture.</p>
</section>
<section>
<h2>Jekyll</h2>
<p>Its Markdown lets the tag through. Put the file into <code>assets/</code>, leave blank lines around the tag and none within.</p>
${code(`<script src="{{ '/assets/what-fits.js' | relative_url }}" defer></script>

<what-fits model="gpt2-from-scratch" batch="8" show="verdict,bar,controls" controls="batch">
${sentence}
</what-fits>`)}
</section>
<section>
<h2>Hugo</h2>
<p>Hugo drops raw HTML unless told otherwise, so use the shortcode: copy <code>layouts/shortcodes/what-fits.html</code> of the package, and the file into <code>static/</code>.</p>
${code(`{{< what-fits model="gpt2-from-scratch" batch="8" show="verdict,bar,controls" controls="batch" >}}
GPT-2 small needs ${gib(F.peak)} GiB at batch 8.
{{< /what-fits >}}`)}
</section>
<section>
<h2>An iframe</h2>
<p>Where scripts are stripped or the page's policy forbids WebAssembly, embed the page. It tells its height to whoever embeds it:</p>
${code(`<iframe src="embed.html#v=1&model=gpt2-from-scratch&batch=8" title="Memory of a training run"
        width="100%" height="420" loading="lazy" style="border:0"></iframe>
<script src="embed-host.js" defer></script>`)}
<p>It works in a sandbox with <code>allow-scripts</code> alone; there, downloads and the clipboard are refused by the browser, and it says so.</p>
</section>
<section>
<h2>Content policy</h2>
<p>WebAssembly needs <code>'wasm-unsafe-eval'</code> in <code>script-src</code>. Nothing else is needed: no inline style, no worker, no connection.</p>
${code("Content-Security-Policy: default-src 'self'; script-src 'self' 'wasm-unsafe-eval'")}
<p>Without it the element says so by name, and your sentence stays.</p>
</section>
</article>`;
};
