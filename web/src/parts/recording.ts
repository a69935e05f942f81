// A measured run, read from its file: the timeline with the prediction of the element's request over it, what is held at the cursor,
// what differs and why. In the second script (snapshot.ts).
import { css, html, nothing, type PropertyValues, type TemplateResult } from 'lit';
import { live } from 'lit/directives/live.js';
import { readSnapshot, type Measured, type Reading } from '../data/measured.js';
import type { Cause, Comparison, RecordedMoment, Recording, RecordingOptions } from '../data/types.js';
import { bytes, count, fixed } from '../data/units.js';
import { Chart, say } from './chart.js';
import { MeasuredPaint } from './measured-paint.js';
import { nextPrefix, patternDefs } from './patterns.js';
import { paintPool } from './pool-paint.js';

/** After the last change of request or cursor, before the long questions are asked. */
const QUIET_MS = 250;
/** Lines of the script shown. */
const FEW = 12;

const sheet = css`
  wf-recording { display: grid; gap: 1.1rem; margin-block-start: 1.1rem; min-inline-size: 0; grid-template-columns: minmax(0, 1fr); }
  .r-area { fill: color-mix(in srgb, var(--_parameters) 42%, var(--_bg)); stroke: var(--_parameters); stroke-width: 1; }
  .r-predicted { fill: none; stroke: var(--_logits); stroke-width: 2; }
  .r-reserved { stroke-width: 1.5; stroke-dasharray: 2 3; }
  .swatch.line-predicted { block-size: 0; border-block-start: 2px solid var(--_logits); border-radius: 0; vertical-align: 0.25em; inline-size: 1em; }
  .swatch.dotted { border-block-start-style: dotted; }
  .r-verdict { font-size: 1.12em; font-weight: 600; }
  .ledger .signed { text-align: end; white-space: nowrap; }
  .ledger .signed:last-child { padding-inline-end: 0; }
  .ledger .why { display: block; color: var(--_muted); }
  progress { inline-size: min(24rem, 100%); accent-color: var(--_accent); }
`.styleSheet!;

export class RecordingView extends Chart {
  static override properties = { ...Chart.properties, file: { attribute: false }, first: { attribute: false }, reading: { state: true }, refused: { state: true } };
  static open: (options: RecordingOptions) => Promise<Recording>;
  declare file: File;
  /** Events before it are left out. */
  declare first: number;
  declare reading: Reading | undefined;
  declare refused: string;
  protected readonly topics = ['report', 'unit', 'snapshot'] as const;
  #measured?: Measured;
  #cancel?: AbortController;
  #comparison?: Comparison | string;
  /** What the comparison is of. */
  #of: unknown;
  #paint?: MeasuredPaint;
  #cursor = 0;
  #moment?: RecordedMoment;
  #begin = 0;
  #end = 0;
  #prefix = nextPrefix();
  #defs = patternDefs(this.#prefix);
  #quiet: ReturnType<typeof setTimeout> | undefined;
  #read?: File;

  constructor() {
    super();
    this.refused = '';
  }

  override connectedCallback(): void {
    super.connectedCallback();
    const root = this.getRootNode() as ShadowRoot;
    if (!root.adoptedStyleSheets.includes(sheet)) root.adoptedStyleSheets = [...root.adoptedStyleSheets, sheet];
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    clearTimeout(this.#quiet);
    this.#cancel?.abort();
  }

  /** The same file offered again is read again, from the event that is set then. */
  protected override changed(): void {
    if (this.session.snapshot !== this.#read) return this.requestUpdate();
    this.follow();
  }

  protected override willUpdate(changed: PropertyValues): void {
    super.willUpdate(changed);
    if (this.file !== this.#read) void this.#start();
  }

  async #start(): Promise<void> {
    this.#cancel?.abort();
    const cancel = (this.#cancel = new AbortController());
    this.#read = this.file;
    this.#measured = this.#comparison = this.#moment = this.#of = this.#paint = undefined;
    this.refused = '';
    this.reading = { name: this.file.name, done: 0, of: this.file.size };
    try {
      const measured = await readSnapshot(this.file, RecordingView.open, this.first ?? 0, cancel.signal, (reading) => {
        if (this.#cancel === cancel) this.reading = { ...reading };
      });
      if (this.#cancel !== cancel) return;
      this.#measured = measured;
      this.#begin = 0;
      this.#end = measured.summary.events;
      this.#cursor = measured.summary.peak.event;
    } catch (error) {
      if (this.#cancel !== cancel) return;
      this.refused = cancel.signal.aborted ? 'was let go' : error instanceof Error ? error.message : String(error);
    }
    this.reading = undefined;
    this.#soon();
  }

  /** The long questions, once nothing has changed for a moment. */
  #soon(): void {
    clearTimeout(this.#quiet);
    this.#quiet = setTimeout(() => {
      const measured = this.#measured;
      if (!measured || !this.isConnected) return;
      if (this.#of !== this.session.run && this.session.run) {
        this.#of = this.session.run;
        this.#comparison = measured.compare(this.session.value);
      }
      if (this.#moment?.at !== this.#cursor) this.#moment = measured.at(this.#cursor);
      this.requestUpdate();
    }, QUIET_MS);
  }

  protected override render(): TemplateResult {
    const { reading } = this;
    if (reading) {
      return html`<p role="status" data-testid="measured-reading">Reading ${reading.name}: ${megabytes(reading.done)} of ${megabytes(reading.of)}</p>
        <div class="row"><progress aria-label="Reading the snapshot" max=${Math.max(1, reading.of)} value=${reading.done}></progress>
          <button type="button" part="button" data-testid="measured-cancel" @click=${() => this.#cancel?.abort()}>Cancel</button></div>`;
    }
    if (this.refused) return html`<p class="bad" role="alert" data-testid="measured-refused"><b>Not read.</b> ${this.file.name}: ${this.refused}.</p>`;
    if (!this.#measured) return html``;
    return html`${this.#summary(this.#measured)}${this.#picture(this.#measured)}${this.#differences()}${this.#held()}`;
  }

  #summary({ name, summary }: Measured): TemplateResult {
    const { unit } = this.session;
    const { events, events_in_file, peak, failures, retries } = summary;
    const result = this.#comparison;
    const stale = this.#of !== this.session.run;
    return html`<div role="status" data-testid="measured-said" class=${stale ? 'pending' : ''}>
        <p class="r-verdict" data-testid="measured-verdict">${typeof result === 'object'
          ? result.verdict === 'as predicted' ? html`<span class="ok">As predicted</span>` : html`<span class="bad">Not as predicted</span>`
          : result ? 'Not comparable' : ''}</p>
        <p>${name}: ${count(events)} events${events_in_file > events ? html` of the file’s ${count(events_in_file)}` : nothing}, ${bytes(peak.allocated, unit)} allocated
          and ${bytes(peak.reserved, unit)} reserved at the peak. ${typeof result === 'object'
            ? html`${count(result.matched)} of ${count(result.measured_allocations)} allocations are the predicted ones, of ${count(result.steps)} ${result.steps === 1 ? 'step' : 'steps'}.
              ${result.unexplained !== 0 ? html`${bytes(result.unexplained, unit)} of the difference is not explained.` : nothing}`
            : result ? html`${result}.` : html`Laying it over the prediction…`}</p>
        ${retries.length > 0 ? html`<p>${count(retries.length)} ${retries.length === 1 ? 'time' : 'times'} PyTorch gave cached segments back to the card to make room, which is slow: the run was near its limit.</p>` : nothing}
      </div>
      ${failures.length > 0 ? html`<div data-testid="measured-failures">${failures.slice(0, 5).map((failure) => html`<p><b class="bad">Memory ran out</b> at event ${count(failure.event)}, in ${failure.place}. It ${failure.message}</p>`)}</div>` : nothing}`;
  }

  #picture(measured: Measured): TemplateResult {
    const { unit } = this.session;
    const { events, peak, end } = measured.summary;
    const zoomed = this.#end - this.#begin < events;
    const beside = typeof this.#comparison === 'object';
    const at = measured.columns(this.#cursor, this.#cursor + 1, 1);
    const row = (mark: string, name: string, value: string, id: string) =>
      html`<tr><th scope="row"><i class="swatch ${mark}" aria-hidden="true"></i>${name}</th><td data-testid=${id}>${value}</td></tr>`;
    return html`<div>
      <div class="section-head"><h4>${beside ? 'Measured, and the prediction over it' : 'Measured'}</h4>
        <div class="tools" role="group" aria-label="View of the measured run">
          <button type="button" class="icon" part="button" aria-label="Zoom out" ?disabled=${!zoomed} @click=${() => this.#zoom(2)}>−</button>
          <button type="button" class="icon" part="button" aria-label="Zoom in" data-testid="measured-zoom" @click=${() => this.#zoom(0.5)}>+</button>
          <button type="button" class="icon wide" part="button" ?disabled=${!zoomed} @click=${() => this.#zoom(Infinity)}>whole run</button>
        </div>
      </div>
      <div class="m-frame"><svg class="mountain" data-testid="measured-picture" role="img" aria-label=${`Measured memory through ${count(events)} events: ${bytes(peak.allocated, unit)} allocated at the peak, ${bytes(end.allocated, unit)} at the end${beside ? '; the prediction is drawn over it' : ''}`}
        @click=${this.#onClick}></svg></div>
      <div class="transport">
        <input type="range" data-testid="measured-cursor" aria-label="Event of the measured run" min="0" max=${events - 1} step="1" .value=${live(String(this.#cursor))}
          aria-valuetext=${`event ${this.#cursor + 1} of ${events}, ${bytes(at.allocated[0]!, unit)} allocated`} @input=${this.#onSlide} @change=${(event: Event) => event.stopPropagation()}>
        <button type="button" class="quiet" part="button" @click=${() => this.#lookAt(peak.event)}>peak</button>
        <button type="button" class="quiet" part="button" data-testid="measured-end" @click=${() => this.#lookAt(events - 1)}>end</button>
      </div>
      <p class="readout" data-testid="measured-readout"><b>Event ${count(this.#cursor + 1)} of ${count(events)}</b> ${this.#moment?.at === this.#cursor ? html`${words(this.#moment, unit)}.` : nothing}</p>
      <table class="legend" data-testid="measured-at" data-quarto-disable-processing="true"><caption class="hidden">Memory at event ${this.#cursor + 1}</caption><tbody>
        ${row('swatch-parameters', 'measured, allocated', fixed(at.allocated[0]!, unit), 'measured-allocated')}
        ${row('line-reserved', 'measured, reserved', fixed(at.reserved[0]!, unit), 'measured-reserved')}
        ${beside ? html`${row('line-predicted', 'predicted, allocated', fixed(at.predictedAllocated[0]!, unit), 'predicted-allocated')}
          ${row('line-predicted dotted', 'predicted, reserved', fixed(at.predictedReserved[0]!, unit), 'predicted-reserved')}
          ${row('', 'allocated over the prediction', signed(at.allocated[0]! - at.predictedAllocated[0]!, unit), 'measured-over')}` : nothing}
      </tbody></table></div>`;
  }

  #differences(): TemplateResult | typeof nothing {
    const result = this.#comparison;
    if (typeof result !== 'object' || result.causes.length === 0) return nothing;
    const { unit } = this.session;
    const line = ({ title, times, advice, tensors, at_peak, at_end, place, kind }: Cause) => html`<tr>
      <th scope="row">${title}${times > 1 ? `, ${count(times)} times` : ''}${advice ? html`<span class="why">${advice}</span>` : nothing}
        ${tensors > 0 ? html`<span class="why">${count(tensors)} ${tensors === 1 ? 'tensor' : 'tensors'}${place ? html`, the first made at ${place}` : nothing}</span>` : nothing}</th>
      <td class="signed">${signed(at_peak, unit)}</td><td class="signed">${kind === 'other_process' ? '' : signed(at_end, unit)}</td></tr>`;
    return html`<table class="ledger" data-testid="measured-causes" data-quarto-disable-processing="true">
      <caption>What differs, by its cause: bytes more (+) or less (−) than predicted</caption>
      <thead><tr><th scope="col">cause</th><th scope="col" class="signed">at the peak</th><th scope="col" class="signed">at the end</th></tr></thead>
      <tbody>${result.causes.map(line)}</tbody></table>`;
  }

  #held(): TemplateResult | typeof nothing {
    const moment = this.#moment;
    if (!moment) return nothing;
    const { unit } = this.session;
    const rest = moment.holders.slice(FEW);
    const sum = (list: readonly { bytes: number }[]) => list.reduce((total, { bytes: of }) => total + of, 0);
    const large = moment.segments.filter((segment) => !segment.small);
    const free = large.flatMap((segment) => segment.blocks.filter((block) => block.state === 'free'));
    const pending = moment.at !== this.#cursor ? 'pending' : '';
    return html`<table class="ledger ${pending}" data-testid="measured-holders" data-quarto-disable-processing="true">
        <caption>Alive at event ${count(moment.at + 1)}, by the line of the script that made it</caption>
        <thead><tr><th scope="col">made at</th><th scope="col" class="signed">tensors</th><th scope="col" class="signed">size</th></tr></thead>
        <tbody>${moment.holders.slice(0, FEW).map((holder) => html`<tr><th scope="row">${holder.place}</th><td class="signed">${count(holder.tensors)}</td><td class="signed">${bytes(holder.bytes, unit)}</td></tr>`)}
          ${rest.length > 0 ? html`<tr><th scope="row">${count(rest.length)} other lines</th><td class="signed">${count(rest.reduce((total, holder) => total + holder.tensors, 0))}</td><td class="signed">${bytes(sum(rest), unit)}</td></tr>` : nothing}
        </tbody></table>
      <div class=${pending}>
        <div class="section-head"><h4>The measured pool’s segments</h4><span class="muted">at event ${count(moment.at + 1)}</span></div>
        <svg class="pool" data-testid="measured-segments" role="img" aria-label=${`${large.length} large segments with ${free.length} free blocks between tensors`}
          @pointermove=${this.#onPoint} @pointerleave=${() => say(this, 'measured-pointed', '')}></svg>
        <p class="pointed" data-testid="measured-pointed"></p>
        <table class="legend" data-testid="measured-pool" data-quarto-disable-processing="true"><caption class="hidden">The measured pool in figures</caption><tbody>
          <tr><th scope="row">segments</th><td>${count(moment.segments.length)}</td></tr>
          <tr><th scope="row">free in large segments</th><td>${count(free.length)} pieces, ${bytes(free.reduce((total, block) => total + block.size, 0), unit)}</td></tr>
          <tr><th scope="row">largest free piece</th><td>${bytes(free.reduce((most, block) => Math.max(most, block.size), 0), unit)}</td></tr>
        </tbody></table></div>`;
  }

  protected override updated(): void {
    if (this.#measured && this.#of !== this.session.run) this.#soon();
    this.#draw();
  }

  #draw(): void {
    const measured = this.#measured;
    const picture = this.querySelector('svg.mountain') as SVGSVGElement | null;
    if (!measured || !picture || !this.visible || this.width < 40) return;
    this.#paint ??= new MeasuredPaint(picture);
    const { width } = this;
    const height = width < 480 ? 250 : Math.min(360, Math.max(280, Math.round(width * 0.38)));
    const view = { width, height, begin: this.#begin, end: this.#end, unit: this.session.unit, beside: typeof this.#comparison === 'object' };
    this.#paint.paint(measured.columns(view.begin, view.end, MeasuredPaint.plotWidth(width)), view, measured.summary);
    this.#paint.cursor(this.#cursor);
    const pool = this.querySelector('svg.pool') as SVGSVGElement | null;
    if (!pool || !this.#moment) return;
    paintPool(pool, width, this.#moment.segments.filter((segment) => !segment.small), this.#defs, (block) => ({
      fill: `url(#${this.#prefix}-${block.state === 'free' ? 'pool' : block.state === 'pending' ? 'temporaries' : 'parameters'})`,
      used: block.state !== 'free',
      say: `${block.state === 'pending' ? 'waiting for a stream' : block.state}: ${bytes(block.size, this.session.unit)}`,
    }));
  }

  #lookAt(event: number): void {
    this.#cursor = Math.max(0, Math.min(this.#measured!.summary.events - 1, event));
    const span = this.#end - this.#begin;
    if (this.#cursor < this.#begin || this.#cursor >= this.#end) {
      this.#begin = Math.max(0, Math.min(this.#measured!.summary.events - span, this.#cursor - Math.round(span / 2)));
      this.#end = this.#begin + span;
    }
    this.requestUpdate();
    this.#soon();
  }

  #zoom(factor: number): void {
    const { events } = this.#measured!.summary;
    const span = Math.max(Math.min(24, events), Math.min(events, Math.round((this.#end - this.#begin) * factor)));
    this.#begin = Math.max(0, Math.min(events - span, Math.round(this.#cursor - span / 2)));
    this.#end = this.#begin + span;
    this.requestUpdate();
  }

  #onSlide = (event: Event): void => {
    event.stopPropagation();
    this.#lookAt(Number((event.target as HTMLInputElement).value));
  };

  #onClick = (event: MouseEvent): void => {
    const at = this.#paint?.eventAt(event.offsetX);
    if (at !== undefined) this.#lookAt(at);
  };

  #onPoint = (event: PointerEvent): void => {
    const text = (event.target as SVGElement).dataset.say;
    if (text) say(this, 'measured-pointed', text);
  };
}

const megabytes = (value: number): string => `${(value / 1e6).toFixed(1)} MB`;

function signed(value: number, unit: Parameters<typeof bytes>[1]): string {
  return value === 0 ? '0' : `${value > 0 ? '+' : '−'}${bytes(Math.abs(value), unit)}`;
}

const ACTIONS: Record<string, string> = {
  alloc: 'allocates', free_requested: 'frees', free_completed: 'has given back', segment_alloc: 'takes a segment of', segment_free: 'gives back a segment of',
  segment_map: 'maps', segment_unmap: 'unmaps', oom: 'is refused',
};

/** "train.py:31 in step allocates 384 MiB" */
function words({ action, size, place }: RecordedMoment, unit: Parameters<typeof bytes>[1]): string {
  return `${place} ${ACTIONS[action] ?? action} ${bytes(size, unit)}`;
}
