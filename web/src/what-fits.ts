// <what-fits>: the element itself. It holds the session, reads attributes, chooses parts; all else is theirs.
import { html, LitElement, nothing, type PropertyDeclarations, type TemplateResult } from 'lit';
import { engineIsIdle, explainFailure, sharedEngine } from './data/adapter.js';
import { FIELDS, put } from './data/fields.js';
import { readLink, valueOf, writeLink } from './data/link.js';
import { Session } from './data/session.js';
import type { Report, Request } from './data/types.js';
import { UNITS, type Unit } from './data/units.js';
import { Address } from './address.js';
import './parts/advice.js';
import './parts/bar.js';
import './parts/controls.js';
import './parts/export.js';
import './parts/import.js';
import './parts/ledger.js';
import './parts/measured.js';
import './parts/mountain.js';
import './parts/segments.js';
import './parts/sweep.js';
import './parts/verdict.js';
import { define } from './parts/part.js';
import { charts, tables, verdict } from './style/parts.js';
import { inputs, layout, tokens } from './style/sheet.js';

export const PARTS = ['verdict', 'bar', 'controls', 'mountain', 'advice', 'sweep', 'segments', 'ledger', 'measured', 'import', 'export'] as const;
export type PartName = (typeof PARTS)[number];
/** Width in em from which the controls stand beside the answer. */
const WIDE = 62;
/** Pixels from the screen at which an element's core starts. */
const NEAR = 300;
/** What an author gets who asks for nothing. */
const USUAL: readonly PartName[] = ['verdict', 'bar', 'controls'];

/**
 * How much memory a PyTorch training run takes, what fits, and why. Predicted by replaying the run.
 *
 * @element what-fits
 * @attr {string} model - a preset, or a config as JSON
 * @attr {number} batch - sequences per micro-batch
 * @attr {number} seq-len - tokens per sequence
 * @attr {string} precision - fp32, bf16, amp-bf16, amp-fp16
 * @attr {string} attention - eager, sdpa, sdpa-math, sdpa-efficient, sdpa-flash
 * @attr {string} optimizer - adamw, adamw-fused, adamw-for-loop, sgd, sgd-momentum
 * @attr {string} checkpointing - none, full
 * @attr {number} grad-accumulation - micro-batches per optimizer step
 * @attr {boolean} clip-grad-norm - clip gradients by their norm
 * @attr {string} zero-grad - set-to-none, zero-fill
 * @attr {string} device - a preset, or a card as JSON
 * @attr {string} allocator - the allocator's options as JSON; each also alone, as allocator.expandable-segments
 * @attr {number} steps - steps replayed
 * @attr {string} show - parts, by space or comma: verdict bar controls mountain advice sweep segments ledger measured import export; or all
 * @attr {string} controls - controls that are offered, by key; all if absent
 * @attr {string} unit - GiB, MiB or GB
 * @attr {string} theme - light, dark or auto; absent: as the page around
 * @attr {boolean} plain - without frame and padding
 * @attr {boolean} standalone - the page is this element's: state is read from and written to the address
 * @attr {string} home - address of a full page, for links that are copied
 * @fires wf-change - a person changed something; detail {value, report}
 * @fires wf-report - every new answer; detail {value, report}
 * @fires input - with wf-change
 * @fires change - with wf-change
 * @slot - what stands there until the element works, and where it cannot: a sentence, a picture
 * @csspart frame - the box around everything
 * @csspart verdict - the answer
 * @csspart bar - the stacked bar
 * @csspart mountain - memory through the step
 * @csspart controls - all controls
 * @csspart ledger - the table of tensors
 * @csspart button - every button
 * @csspart input - every box and choice
 * @cssprop --wf-fg - text
 * @cssprop --wf-bg - background
 * @cssprop --wf-muted - lesser text
 * @cssprop --wf-rule - lines
 * @cssprop --wf-accent - links, focus
 * @cssprop --wf-font - text's font
 * @cssprop --wf-radius - the frame's corners
 */
export class WhatFits extends LitElement {
  static override styles = [tokens, layout, inputs, verdict, charts, tables];
  static override properties: PropertyDeclarations = {
    show: { type: String },
    controls: { type: String },
    unit: { type: String, reflect: true },
    home: { type: String },
    standalone: { type: Boolean },
    request: { attribute: false, noAccessor: true },
    _failure: { state: true },
    _ready: { state: true },
    _wide: { state: true },
  };
  declare show: string | null;
  declare controls: string | null;
  declare unit: Unit;
  declare home: string | null;
  declare standalone: boolean;
  declare _failure: { code: string; message: string } | undefined;
  declare _ready: boolean;
  /** Room for the controls beside the answer. */
  declare _wide: boolean;

  readonly session = new Session();
  #asked?: Request;
  #address?: Address;
  #watch?: IntersectionObserver;
  #resize?: ResizeObserver;
  #starting = false;

  static override get observedAttributes(): string[] {
    return [...super.observedAttributes, ...FIELDS.map((field) => field.name)];
  }

  constructor() {
    super();
    this.unit = 'GiB';
    this._ready = false;
    this._wide = false;
    this.session.onReport = (byUser, decision) => this.#answered(byUser, decision);
    this.session.subscribe(['unit', 'notes', 'problems', 'snapshot'], () => this.requestUpdate());
    this.addEventListener('dragover', this.#over);
    this.addEventListener('dragleave', this.#leave);
    this.addEventListener('drop', this.#drop);
    // The button that takes all changes back comes and goes; the rest of the frame does not change with an answer.
    let touched = false;
    this.session.subscribe(['report'], () => {
      if (touched !== this.session.touched) this.requestUpdate();
      touched = this.session.touched;
    });
    this.session.subscribe(['unit'], () => (this.unit = this.session.unit));
  }

  /** The request, every key written out. Setting it replaces what the attributes say. */
  get request(): Request {
    return this.session.value;
  }
  set request(value: Request | string) {
    let request: unknown = value;
    if (typeof value === 'string') {
      try {
        request = JSON.parse(value);
      } catch {
        request = {};
      }
    }
    this.#asked = typeof request === 'object' && request !== null ? (request as Request) : {};
    this.session.ask(this.#asked);
  }
  get value(): Request {
    return this.session.value;
  }
  set value(value: Request) {
    this.request = value;
  }
  get report(): Report | undefined {
    return this.session.whole;
  }
  /** The state as a link's fragment. */
  get fragment(): string {
    return writeLink(this.session.state);
  }

  override connectedCallback(): void {
    super.connectedCallback();
    this.#resize = new ResizeObserver(([entry]) => (this._wide = entry!.contentRect.width >= WIDE * parseFloat(getComputedStyle(this).fontSize)));
    this.#resize.observe(this);
    if (this.session.engine) {
      this.session.compute();
      return;
    }
    if (!this.#asked) this.session.ask(this.#fromAttributes());
    if (this.standalone) {
      this.#address = new Address(this.session, this.#fromAttributes());
      this.#address.read();
    }
    // The core starts when the element comes near the screen. An observer says so only after a frame, so the page's first element
    // looks for itself and has the module compiled meanwhile.
    if (engineIsIdle() && this.#near()) void sharedEngine().catch(() => {});
    this.#watch = new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && void this.#start(), { rootMargin: `${NEAR}px` });
    this.#watch.observe(this);
  }

  #near(): boolean {
    const { top, bottom } = this.getBoundingClientRect();
    return this.getClientRects().length > 0 && top < innerHeight + NEAR && bottom > -NEAR;
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    this.#watch?.disconnect();
    this.#resize?.disconnect();
    this.#address?.close();
    // Moved within the page it comes back in the same task; only then is it still connected.
    queueMicrotask(() => {
      if (!this.isConnected) this.session.stop();
    });
  }

  override attributeChangedCallback(name: string, old: string | null, value: string | null): void {
    super.attributeChangedCallback(name, old, value);
    if (old !== value && this.isConnected && FIELDS.some((field) => field.name === name)) this.session.ask(this.#fromAttributes());
  }

  async #start(): Promise<void> {
    if (this.#starting) return;
    this.#starting = true;
    this.#watch?.disconnect();
    try {
      const engine = await sharedEngine();
      if (!this.isConnected) {
        this.#starting = false;
        return;
      }
      this.session.wantsAdvice = this.#shown().includes('advice');
      this._ready = true;
      this.session.start(engine);
    } catch (error) {
      this._failure = explainFailure(error);
      this.dispatchEvent(new CustomEvent('wf-error', { bubbles: true, composed: true, detail: { code: this._failure.code, message: this._failure.message } }));
    }
  }

  #fromAttributes(): Request {
    let request: Request = { ...this.#asked };
    for (const field of FIELDS) {
      const text = this.getAttribute(field.name);
      if (text !== null) request = put(request, field.path, valueOf(field, text));
    }
    if (!('model' in request)) request = { model: 'gpt2-from-scratch', ...request };
    return request;
  }

  protected override willUpdate(changed: Map<PropertyKey, unknown>): void {
    if (changed.has('unit')) {
      const unit = UNITS.find((known) => known.toLowerCase() === String(this.unit).toLowerCase()) ?? 'GiB';
      if (unit !== this.unit) this.unit = unit;
      if (unit !== this.session.unit) this.session.setUnit(unit);
    }
    if (changed.has('show')) this.session.wantsAdvice = this.#shown().includes('advice');
  }

  #shown(): PartName[] {
    const words = (this.show ?? '').toLowerCase().split(/[\s,]+/).filter(Boolean);
    if (words.length === 0) return [...USUAL];
    if (words.includes('all')) return [...PARTS];
    // Controls that are named are also shown.
    return PARTS.filter((part) => words.includes(part) || (part === 'controls' && this.controls));
  }

  #controlNames(): string[] {
    const words = (this.controls ?? '').toLowerCase().split(/[\s,]+/).filter(Boolean);
    return words.map((word) => (word === 'seq' ? 'seq-len' : word)).filter((word) => FIELDS.some((field) => field.name === word));
  }

  #answered(byUser: boolean, decision: boolean): void {
    const { session } = this;
    // On a drag's way nobody may want the whole report: it is made when a listener reads it.
    const detail = {
      value: session.value,
      get report() {
        return session.whole;
      },
    };
    this.dispatchEvent(new CustomEvent('wf-report', { bubbles: true, composed: true, detail }));
    this.#address?.write(byUser, decision);
    if (!byUser) return;
    this.dispatchEvent(new CustomEvent('wf-change', { bubbles: true, composed: true, detail }));
    this.dispatchEvent(new Event('input', { bubbles: true, composed: true }));
    this.dispatchEvent(new Event('change', { bubbles: true, composed: true }));
  }

  protected override render(): TemplateResult {
    if (this._failure) {
      return html`<div class="frame" part="frame"><slot></slot><p class="unavailable" role="alert" data-testid="unavailable">${this._failure.message}</p></div>`;
    }
    if (!this._ready) return html`<div class="frame" part="frame" aria-busy="true"><slot></slot></div>`;
    const shown = this.#shown();
    const has = (part: PartName) => shown.includes(part);
    const { session } = this;
    const side = this._wide && has('controls') && shown.length > 3 && !this.controls;
    const controls = html`<wf-controls part="controls" .session=${session} .only=${this.#controlNames()}></wf-controls>`;
    return html`<div class="frame ${side ? 'with-side' : ''}" part="frame">
      ${side ? html`<div class="side"><div>${controls}</div></div>` : nothing}
      <div class="main">
        ${has('verdict') || has('bar')
          ? html`<div>
              ${this.#topline()}
              ${has('verdict') ? html`<wf-verdict part="verdict" .session=${session}></wf-verdict>` : nothing}
            </div>`
          : nothing}
        ${has('bar') ? html`<wf-bar class="joined" .session=${session}></wf-bar>` : nothing}
        ${has('controls') && !side ? controls : nothing}
        ${this.#wrongElsewhere(has('controls'))}
        ${has('mountain') ? html`<wf-mountain .session=${session}></wf-mountain>` : nothing}
        ${has('advice') ? html`<wf-advice part="advice" .session=${session}></wf-advice>` : nothing}
        ${has('sweep') ? html`<wf-sweep part="sweep" .session=${session}></wf-sweep>` : nothing}
        ${has('segments') ? html`<wf-segments part="segments" .session=${session}></wf-segments>` : nothing}
        ${has('ledger') ? html`<wf-ledger .session=${session}></wf-ledger>` : nothing}
        ${has('measured') || session.snapshot ? html`<wf-measured part="measured" .session=${session}></wf-measured>` : nothing}
        ${has('import') ? html`<wf-import part="import" .session=${session}></wf-import>` : nothing}
        ${has('export') ? html`<wf-export part="export" .session=${session} .home=${this.home ?? ''} .standalone=${this.standalone}></wf-export>` : nothing}
      </div>
    </div>`;
  }

  #topline(): TemplateResult {
    const { session } = this;
    return html`${session.notes.length > 0
        ? html`<div class="notes" role="status" data-testid="notes"><ul>${session.notes.map((note) => html`<li>${note}</li>`)}</ul></div>`
        : nothing}
      <div class="topline">
        ${session.touched ? html`<button type="button" class="quiet" part="button" data-testid="reset" @click=${() => session.reset()}>Start over</button>` : nothing}
        <span class="segmented" role="radiogroup" aria-label="Unit" data-testid="unit">
          ${UNITS.map((unit) => html`<label><input type="radio" name="unit" value=${unit} .checked=${unit === session.unit}
            @input=${(event: Event) => event.stopPropagation()}
            @change=${(event: Event) => { event.stopPropagation(); session.setUnit(unit); }}><span>${unit}</span></label>`)}
        </span>
      </div>`;
  }

  /** A file may be dropped anywhere on an element that takes some. Files only: text dragged into a box is the box's. */
  #over = (event: DragEvent): void => {
    const boxes = this.renderRoot.querySelectorAll('.drop');
    if (boxes.length === 0 || !event.dataTransfer?.types.includes('Files')) return;
    event.preventDefault();
    boxes.forEach((box) => box.classList.add('over'));
  };
  #leave = (): void => this.renderRoot.querySelectorAll('.drop').forEach((box) => box.classList.remove('over'));
  #drop = (event: DragEvent): void => {
    this.#leave();
    const file = event.dataTransfer?.files[0];
    if (!file || !this.renderRoot.querySelector('.drop')) return;
    event.preventDefault();
    void this.session.offer(file);
  };

  /** A wrong request is named even where no control is shown for it. */
  #wrongElsewhere(withControls: boolean): TemplateResult | typeof nothing {
    const { problems, report } = this.session;
    const listed = withControls && report && !this.controls ? [] : problems;
    if (listed.length === 0) return nothing;
    return html`<div class="notes" role="alert" data-testid="problems"><ul>${listed.map((problem) => html`<li><b>${problem.key}</b>: ${problem.value ? html`<code>${problem.value.slice(0, 80)}</code> ` : nothing}${problem.message}</li>`)}</ul></div>`;
  }
}

define('what-fits', WhatFits);

declare global {
  interface HTMLElementTagNameMap {
    'what-fits': WhatFits;
  }
}

export { readLink, writeLink };
