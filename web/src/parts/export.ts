// Taking the answer along: files, a link, the tag for another page. Where the clipboard is refused the text is shown, selected.
import { html, nothing, type TemplateResult } from 'lit';
import { embedCode, toCsv, toJson } from '../data/export.js';
import { writeLink } from '../data/link.js';
import { count, fixed } from '../data/units.js';
import { define, Part } from './part.js';
import { download, standaloneSvg, toPng } from './picture.js';

/** Where this script came from, for the embed code. */
const SCRIPT = typeof document !== 'undefined' && document.currentScript instanceof HTMLScriptElement ? document.currentScript.src : 'what-fits.js';

export class Export extends Part {
  static override properties = { ...Part.properties, home: { attribute: false }, standalone: { attribute: false }, said: { state: true }, text: { state: true } };
  declare home: string;
  declare standalone: boolean;
  declare said: string;
  /** A text to copy by hand. */
  declare text: string;
  protected readonly topics = ['report', 'unit'] as const;

  constructor() {
    super();
    this.home = '';
    this.standalone = false;
    this.said = '';
    this.text = '';
  }

  protected override render(): TemplateResult {
    const button = (id: string, label: string, act: () => unknown) =>
      html`<button type="button" part="button" data-testid=${id} @click=${act}>${label}</button>`;
    return html`<div class="section-head"><h3>Take it along</h3></div>
      <div class="row">
        ${button('copy-link', 'Copy link', () => this.#copy(this.#link(), 'The link'))}
        ${button('copy-embed', 'Copy embed code', () => this.#copy(this.#embed(), 'The code'))}
        ${button('export-json', 'JSON', () => download(toJson(this.session.whole!), 'what-fits.json', 'application/json'))}
        ${button('export-csv', 'CSV', () => download(toCsv(this.session.whole!), 'what-fits.csv', 'text/csv'))}
        ${button('export-svg', 'SVG', () => this.#picture('svg'))}
        ${button('export-png', 'PNG', () => this.#picture('png'))}
      </div>
      <p class="said" role="status" data-testid="export-said">${this.said}</p>
      ${this.text ? html`<label for="export-text" class="hidden">To copy</label><textarea id="export-text" part="input" readonly data-testid="export-text" .value=${this.text} @focus=${select}></textarea>` : nothing}`;
  }

  #link(): string {
    const fragment = writeLink(this.session.state);
    const home = this.standalone ? location.href : this.home;
    return home ? `${home.split('#')[0]}${fragment}` : fragment;
  }

  #embed(): string {
    const { session } = this;
    const { peak } = session.report!;
    const sentence = `Batch ${count(session.value.batch as number)} of ${count(session.value.seq_len as number)} tokens on ${session.deviceName}: ${fixed(peak.reserved, session.unit)} at the peak${session.fits === false ? ', which does not fit' : ''}.`;
    return embedCode(session.value, session.unit, sentence, SCRIPT);
  }

  async #copy(text: string, what: string): Promise<void> {
    this.text = '';
    try {
      await navigator.clipboard.writeText(text);
      this.said = `${what} is in the clipboard.`;
    } catch {
      this.said = `${what} cannot be put into the clipboard here; copy it by hand.`;
      this.text = text;
      await this.updateComplete;
      (this.querySelector('#export-text') as HTMLTextAreaElement | null)?.focus();
    }
  }

  async #picture(kind: 'svg' | 'png'): Promise<void> {
    const root = this.getRootNode() as ShadowRoot;
    const source = (root.querySelector('svg.mountain') ?? root.querySelector('svg.bar')) as SVGSVGElement | null;
    if (!source) {
      this.said = 'There is no picture here to save.';
      return;
    }
    const host = root.host as HTMLElement;
    const svg = standaloneSvg(source, source.getAttribute('aria-label') ?? '', getComputedStyle(host).backgroundColor);
    try {
      if (kind === 'svg') download(svg, 'what-fits.svg', 'image/svg+xml');
      else download(await toPng(svg), 'what-fits.png', 'image/png');
      this.said = '';
    } catch {
      this.said = 'This page does not allow saving a picture.';
    }
  }
}

function select(event: Event): void {
  (event.target as HTMLTextAreaElement).select();
}

define('wf-export', Export);
