// Memory through the whole step. The picture is painted by hand; a real slider is its cursor, so keys, touch and screen readers
// need nothing of their own.
import { html, nothing, type TemplateResult } from 'lit';
import { GROUP_OF, GROUPS } from '../data/palette.js';
import type { Timeline } from '../data/types.js';
import { bytes, count, fixed } from '../data/units.js';
import { eventSentence, MountainPaint } from './mountain-paint.js';
import { Chart } from './chart.js';
import { define, reducedMotion } from './part.js';

/** A whole step plays in this time. */
const PLAY_MS = 6000;

export class Mountain extends Chart {
  protected readonly topics = ['report', 'cursor', 'unit'] as const;
  #paint?: MountainPaint;
  #shown?: Timeline;
  #begin = 0;
  #end = 0;
  #scale: 'auto' | 'card' | 'run' = 'auto';
  #hover?: number;
  #play = 0;
  #painted = 0;

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    this.#pause();
  }

  protected override resized(): void {
    this.#draw();
  }

  protected override seen(): void {
    if (this.visible) this.#draw();
    else this.#pause();
  }

  protected override render(): TemplateResult | typeof nothing {
    const { session } = this;
    const timeline = this.visible || this.#shown ? session.timeline : undefined;
    if (!session.report) return nothing;
    const row = session.row;
    const n = timeline?.count ?? 0;
    const zoomed = n > 0 && this.#end - this.#begin < n;
    return html`<div class="section-head"><h3>Memory through ${timeline?.oom ? `step ${timeline.step}, which fails` : 'one step'}</h3>
        <div class="tools" role="group" aria-label="View of the mountain">
          <button type="button" class="icon" part="button" data-testid="zoom-out" aria-label="Zoom out" ?disabled=${!zoomed} @click=${() => this.#zoom(2)}>−</button>
          <button type="button" class="icon" part="button" data-testid="zoom-in" aria-label="Zoom in" @click=${() => this.#zoom(0.5)}>+</button>
          <button type="button" class="icon wide" part="button" data-testid="zoom-reset" ?disabled=${!zoomed} @click=${() => this.#reset()}>whole step</button>
          <button type="button" class="icon wide" part="button" data-testid="scale" aria-pressed=${this.#cardScale() ? 'true' : 'false'}
            @click=${() => this.#toggleScale()}>card’s scale</button>
        </div>
      </div>
      <div class="m-frame">
        <svg class="mountain" part="mountain" data-testid="mountain" role="img" aria-label=${this.#name()}
          @pointermove=${this.#onMove} @pointerleave=${this.#onLeave} @click=${this.#onClick} @dblclick=${() => this.#reset()}></svg>
      </div>
      <div class="transport" @keydown=${this.#onKey}>
        <button type="button" class="icon" part="button" data-testid="previous" aria-label="Previous event" @click=${() => this.#step(-1)}>${glyph('M11 3L5 8L11 13Z M4 3V13')}</button>
        <button type="button" class="icon" part="button" data-testid="play" aria-label=${session.playing ? 'Pause' : 'Play the step'}
          @click=${() => this.#toggle()}>${glyph(session.playing ? 'M4 3H7V13H4Z M9.5 3H12.5V13H9.5Z' : 'M4 2.5L13 8L4 13.5Z')}</button>
        <button type="button" class="icon" part="button" data-testid="next" aria-label="Next event" @click=${() => this.#step(1)}>${glyph('M5 3L11 8L5 13Z M12 3V13')}</button>
        <input type="range" part="cursor" data-testid="cursor" aria-label="Event of the step" min="0" max=${Math.max(0, n - 1)} step="1"
          .value=${String(row)} aria-valuetext=${timeline ? `event ${row + 1} of ${n}. ${eventSentence(timeline, row, session.unit)}` : ''}
          @input=${this.#onSlide}>
        <button type="button" class="quiet" part="button" data-testid="to-peak" @click=${() => this.#lookAt(undefined)}>peak</button>
      </div>
      ${timeline && n > 0 ? this.#readout(timeline, row) : nothing}`;
  }

  #readout(timeline: Timeline, row: number): TemplateResult {
    const { unit, cursor, report } = this.session;
    const here = timeline.row(row);
    const columns = timeline.columns(row, row + 1, 1);
    const sums = GROUPS.map(() => 0);
    GROUP_OF.forEach((group, category) => (sums[group]! += columns.categories[category] ?? 0));
    const atEnd = timeline.oom !== null && row === timeline.count - 1;
    return html`<p class="readout" data-testid="readout">
        <b>${cursor === undefined ? 'At the peak' : `Event ${count(row + 1)} of ${count(timeline.count)}`}</b>
        ${eventSentence(timeline, row, unit)}.
        ${atEnd ? html`<span class="bad">Then ${timeline.oom!.op} asks for ${bytes(timeline.oom!.tensor, unit)}, and the run ends.</span>` : nothing}
      </p>
      <table class="legend" data-testid="alive" data-quarto-disable-processing="true">
        <caption class="hidden">Alive at event ${row + 1} of step ${report?.steps.length ?? ''}</caption>
        <tbody>
          ${GROUPS.map((group, i) => html`<tr class=${sums[i] === 0 ? 'none' : ''}><th scope="row"><i class="swatch swatch-${group.id}" aria-hidden="true"></i>${group.label}</th><td>${bytes(sums[i]!, unit)}</td></tr>`)}
          <tr><th scope="row"><i class="swatch line-allocated" aria-hidden="true"></i>allocated</th><td data-testid="at-allocated">${fixed(here.allocated, unit)}</td></tr>
          <tr><th scope="row"><i class="swatch line-reserved" aria-hidden="true"></i>reserved by the pool</th><td data-testid="at-reserved">${fixed(here.reserved, unit)}</td></tr>
        </tbody>
      </table>`;
  }

  #name(): string {
    const { report, unit, fits } = this.session;
    if (!report) return '';
    const { at, allocated, reserved } = report.peak;
    return `Memory through step ${at.step}: peaks at ${bytes(allocated, unit)} allocated in ${at.phase}, at ${at.op}; the pool reserves up to ${bytes(reserved, unit)}${fits === false ? '; the run ends out of memory' : ''}`;
  }

  protected override updated(): void {
    this.#draw();
  }

  protected override firstUpdated(): void {
    this.#bind();
  }

  #bind(): void {
    const picture = this.querySelector('svg.mountain') as SVGSVGElement | null;
    if (!picture || this.#paint) return;
    this.#paint = new MountainPaint(picture);
    // Plain wheel stays the page's; with ctrl (and pinch, which comes as that) it zooms.
    picture.addEventListener('wheel', (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      this.#zoom(event.deltaY > 0 ? 1.25 : 0.8, this.#paint!.fraction(event.offsetX));
    }, { passive: false });
  }

  #cardScale(): boolean {
    const { report, free } = this.session;
    if (this.#scale !== 'auto') return this.#scale === 'card';
    return report !== undefined && (report.verdict === 'oom' || report.peak.reserved > 0.6 * free);
  }

  #draw(): void {
    this.#bind();
    const { session } = this;
    const paint = this.#paint;
    if (!paint || !this.visible || this.width < 40 || !session.report) return;
    const timeline = session.timeline;
    if (!timeline || timeline.count === 0) return;
    if (timeline !== this.#shown || this.#end === 0) {
      const kept = this.#shown && this.#end - this.#begin < this.#shown.count && this.#shown.count === timeline.count;
      this.#shown = timeline;
      this.#painted = 0;
      if (!kept) {
        this.#begin = 0;
        this.#end = timeline.count;
      }
      if (!this.querySelector('.legend')) this.requestUpdate();
    }
    const { free, unit } = session;
    const { oom } = timeline;
    const highest = Math.max(session.report.peak.reserved, oom ? oom.reserved + oom.requested : 0);
    const top = this.#cardScale() ? Math.max(free * 1.09, oom ? highest * 1.02 : 0) : highest * 1.12;
    const height = this.width < 480 ? 250 : Math.min(400, Math.max(300, Math.round(this.width * 0.42)));
    const key = hash([this.width, height, this.#begin, this.#end, top, unit, free]);
    if (key !== this.#painted) {
      this.#painted = key;
      paint.paint(timeline, {
        width: this.width, height, begin: this.#begin, end: this.#end, top, unit, free,
        card: session.deviceName.replace(/^NVIDIA (GeForce )?/, ''), whole: timeline.row(timeline.peak).allocated === session.report.peak.allocated,
      });
    }
    paint.cursor(timeline, this.#hover ?? session.row);
  }

  #zoom(factor: number, around?: number): void {
    const timeline = this.#shown;
    if (!timeline) return;
    const span = this.#end - this.#begin;
    const next = Math.max(24, Math.min(timeline.count, Math.round(span * factor)));
    const row = this.session.row;
    const inView = row >= this.#begin && row < this.#end;
    const share = around ?? (inView ? (row - this.#begin) / span : 0.5);
    this.#begin = Math.max(0, Math.min(timeline.count - next, Math.round(this.#begin + share * (span - next))));
    this.#end = this.#begin + next;
    this.requestUpdate();
  }

  #reset(): void {
    this.#begin = 0;
    this.#end = this.#shown?.count ?? 0;
    this.requestUpdate();
  }

  #toggleScale(): void {
    this.#scale = this.#cardScale() ? 'run' : 'card';
    this.requestUpdate();
  }

  #lookAt(row: number | undefined): void {
    const { session } = this;
    session.look(row);
    const at = session.row;
    const span = this.#end - this.#begin;
    if (this.#shown && (at < this.#begin || at >= this.#end)) {
      this.#begin = Math.max(0, Math.min(this.#shown.count - span, at - Math.round(span / 2)));
      this.#end = this.#begin + span;
      this.requestUpdate();
    }
  }

  #step(by: number): void {
    this.#pause();
    this.#lookAt(Math.max(0, Math.min((this.#shown?.count ?? 1) - 1, this.session.row + by)));
  }

  #onSlide = (event: Event): void => {
    this.#pause();
    this.#lookAt(Number((event.target as HTMLInputElement).value));
  };

  #onKey = (event: KeyboardEvent): void => {
    const { session } = this;
    const slider = (event.target as HTMLElement).getAttribute('type') === 'range';
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const handled = ((): boolean => {
      switch (event.key) {
        case ' ': return slider && (this.#toggle(), true);
        case 'PageUp': return slider && (this.#phase(1), true);
        case 'PageDown': return slider && (this.#phase(-1), true);
        case '+': case '=': this.#zoom(0.5); return true;
        case '-': this.#zoom(2); return true;
        case '0': this.#reset(); return true;
        case 'p': this.#lookAt(undefined); return true;
        case 'Escape': session.look(undefined); return session.cursor !== undefined;
        default: return false;
      }
    })();
    if (handled) event.preventDefault();
  };

  /** To the beginning of the next (or this, or the last) phase. */
  #phase(direction: number): void {
    const timeline = this.#shown;
    if (!timeline) return;
    const row = this.session.row;
    const starts = timeline.phases.map((phase) => phase.begin);
    const to = direction > 0 ? starts.find((start) => start > row) ?? timeline.count - 1 : starts.filter((start) => start < row).at(-1) ?? 0;
    this.#lookAt(to);
  }

  #onMove = (event: PointerEvent): void => {
    if (event.pointerType === 'touch') return;
    this.#hover = this.#paint?.rowAt(event.offsetX);
    if (this.#shown && this.#hover !== undefined) this.#paint?.cursor(this.#shown, this.#hover);
  };

  #onLeave = (): void => {
    this.#hover = undefined;
    if (this.#shown) this.#paint?.cursor(this.#shown, this.session.row);
  };

  #onClick = (event: MouseEvent): void => {
    const row = this.#paint?.rowAt(event.offsetX);
    if (row === undefined) return;
    this.#pause();
    this.#lookAt(row);
  };

  #toggle(): void {
    if (this.session.playing) this.#pause();
    else this.#start();
  }

  #start(): void {
    const { session } = this;
    const timeline = this.#shown;
    if (!timeline) return;
    session.playing = true;
    let position = session.row >= timeline.count - 1 || session.cursor === undefined ? 0 : session.row;
    const still = reducedMotion();
    let last = performance.now();
    const tick = (now: number): void => {
      if (!session.playing || this.#shown !== timeline) return this.#pause();
      const passed = now - last;
      // Without motion: a jump now and then, each a still picture.
      if (!still || passed > 500) {
        last = now;
        position += still ? timeline.count / 24 : (Math.min(100, passed) / PLAY_MS) * timeline.count;
        this.#lookAt(Math.min(timeline.count - 1, Math.floor(position)));
      }
      if (position >= timeline.count - 1) return this.#pause();
      this.#play = requestAnimationFrame(tick);
    };
    this.#play = requestAnimationFrame(tick);
    this.requestUpdate();
  }

  #pause(): void {
    cancelAnimationFrame(this.#play);
    if (!this.session?.playing) return;
    this.session.playing = false;
    this.session.emit('cursor');
    this.requestUpdate();
  }
}

const glyph = (d: string): TemplateResult =>
  html`<svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true"><path d=${d} fill="currentColor" stroke="currentColor" stroke-width="1.2" stroke-linejoin="round"/></svg>`;

/** One number for "nothing that the picture shows has changed". */
function hash(values: readonly (number | string)[]): number {
  let h = 17;
  for (const value of values) {
    for (const c of String(value)) h = (h * 31 + c.charCodeAt(0)) | 0;
  }
  return h || 1;
}

define('wf-mountain', Mountain);
