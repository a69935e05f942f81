// Batch by length: where the run fits, where barely, where not. A real table of buttons; one stop for Tab, arrows inside.
import { html, nothing, type TemplateResult } from 'lit';
import { styleMap } from 'lit/directives/style-map.js';
import { Slicer } from '../data/slicer.js';
import { cellAt, type SweepCell } from '../data/types.js';
import { bare, bytes, count } from '../data/units.js';
import { Chart, say } from './chart.js';
import { define } from './part.js';

const BATCHES = 32;
const LENGTHS = 8;
/** A change of anything but batch and length starts anew; quick ones wait for each other. */
const QUIET_MS = 200;

export class Sweep extends Chart {
  protected readonly topics = ['report', 'fit', 'unit'] as const;
  #cells = new Map<string, SweepCell>();
  #batches: number[] = [];
  #lengths: number[] = [];
  #key = '';
  #work = new Slicer();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #done = false;
  #stopped = false;
  #focus = { batch: 0, length: 0 };
  #wide = true;

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    this.#work.cancel();
    clearTimeout(this.#timer);
  }

  protected override resized(): void {
    const wide = this.width > 700;
    if (wide === this.#wide) return;
    this.#wide = wide;
    this.requestUpdate();
  }

  protected override seen(): void {
    if (this.visible) this.changed();
  }

  /** Of a drag the map only needs the mark moved, and that not on every frame. */
  protected override changed(): void {
    this.#begin();
    if (this.visible) this.follow();
  }

  #begin(): void {
    const { session } = this;
    if (!this.visible || !session.fit || !session.run) return;
    const key = JSON.stringify({ ...session.value, batch: 0, seq_len: 0 });
    if (key === this.#key) return;
    this.#work.cancel();
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#compute(key), QUIET_MS);
  }

  #compute(key: string): void {
    const { session } = this;
    const largest = session.fit?.largest ?? 16;
    const positions = Number(session.shape.n_positions ?? session.value.seq_len);
    // Up to half as much again as fits at the length asked for.
    const step = Math.max(1, Math.ceil((largest * 1.5) / BATCHES));
    this.#batches = Array.from({ length: BATCHES }, (_, i) => (step === 1 ? i + 1 : (i + 1) * step));
    const lengths = Math.min(LENGTHS, positions);
    this.#lengths = Array.from({ length: lengths }, (_, i) => Math.max(1, Math.round((positions * (i + 1)) / lengths)));
    this.#cells.clear();
    this.#key = key;
    this.#done = this.#stopped = false;
    // A run of its own: the session closes its one when a slider moves, and the map is to go on.
    const run = session.engine!.open(session.value);
    if (Array.isArray(run)) return;
    const job = run.sweep(this.#batches, this.#lengths);
    let known = 0;
    let painted = 0;
    void this.#work
      .run(
        () => job.step(),
        (done) => {
          const now = performance.now();
          if (!done && now - painted < 90) return;
          painted = now;
          const cells = job.result();
          for (; known < cells.count; known += 1) {
            const cell = cellAt(cells, known);
            this.#cells.set(`${cell.batch}/${cell.seq_len}`, cell);
          }
          this.#done = done;
          this.requestUpdate();
        },
      )
      .finally(() => run.close());
  }

  #cancel(): void {
    this.#work.cancel();
    this.#stopped = true;
    this.requestUpdate();
  }

  protected override render(): TemplateResult | typeof nothing {
    if (!this.session.report) return nothing;
    const total = this.#batches.length * this.#lengths.length;
    const rows = this.#wide ? this.#lengths : this.#batches;
    const columns = this.#wide ? this.#batches : this.#lengths;
    return html`<div class="section-head"><h3 id="sweep-title">Batch × length</h3>
        <div class="tools" role="status">${this.#done
          ? html`<span class="muted">${count(total)} runs replayed</span>`
          : this.#stopped ? html`<span class="muted">stopped at ${count(this.#cells.size)} of ${count(total)}</span><button type="button" part="button" @click=${() => this.#compute(this.#key)}>Start again</button>`
          : html`<progress max=${Math.max(1, total)} .value=${this.#cells.size} aria-label="Runs replayed"></progress>
            <button type="button" part="button" data-testid="sweep-cancel" @click=${() => this.#cancel()}>Stop</button>`}</div></div>
      <table class="sweep" part="sweep-table" data-testid="sweep" role="grid" aria-labelledby="sweep-title" aria-busy=${this.#done ? 'false' : 'true'}
          data-quarto-disable-processing="true" @keydown=${this.#onKey}>
        <thead><tr><th scope="col"><span class="hidden">${this.#wide ? 'length, by batch' : 'batch, by length'}</span></th>${columns.map((value, i) =>
          html`<th scope="col">${this.#wide && columns.length > 16 && i % 2 === 1 ? html`<span class="hidden">${value}</span>` : value}</th>`)}</tr></thead>
        <tbody>${rows.map((row) => html`<tr><th scope="row">${row}</th>${columns.map((column) =>
          this.#wide ? this.#cell(column, row) : this.#cell(row, column))}</tr>`)}</tbody>
      </table>
      <div class="sweep-key" aria-hidden="true"><span><i class="key-fits"></i>fits, fuller as darker</span><span><i class="key-tight"></i>fits, tightly</span><span><i class="key-oom"></i>out of memory</span></div>
      <p class="pointed" data-testid="sweep-readout" role="status"></p>`;
  }

  #cell(batch: number, length: number): TemplateResult {
    const { session } = this;
    const cell = this.#cells.get(`${batch}/${length}`);
    const free = session.free;
    const share = cell ? Math.min(1, cell.reserved / free) : 0;
    const state = !cell ? 'open' : !cell.fits ? 'oom' : free - cell.reserved < 0.03 * free ? 'tight' : 'fits';
    const here = session.value.batch === batch && session.value.seq_len === length;
    const focus = this.#focusCell();
    const text = !cell ? '' : state === 'oom' ? '×' : this.#wide && this.#batches.length * 30 > 1400 ? '' : bare(cell.reserved, 'GiB', 0);
    const words = this.#describe(batch, length);
    const point = () => say(this, 'sweep-readout', words);
    return html`<td role="gridcell"><button type="button" data-state=${state} data-batch=${batch} data-length=${length}
      style=${styleMap({ '--use': `${Math.round(8 + 64 * share)}%` })} tabindex=${focus.batch === batch && focus.length === length ? '0' : '-1'}
      aria-current=${here ? 'true' : 'false'} aria-label=${words} title=${words}
      @focus=${point} @pointerenter=${point}
      @click=${() => { this.#focus = { batch, length }; session.apply([{ path: ['batch'], value: batch }, { path: ['seq_len'], value: length }], `batch ${batch}, length ${length}`); }}>${text}</button></td>`;
  }

  #describe(batch: number, length: number): string {
    const cell = this.#cells.get(`${batch}/${length}`);
    const at = `batch ${count(batch)}, ${count(length)} tokens`;
    if (!cell) return `${at}: not replayed yet`;
    return cell.fits ? `${at}: fits, ${bytes(cell.reserved, this.session.unit)} reserved` : cell.drifts ? `${at}: never settles, a later step may fail` : `${at}: out of memory`;
  }

  #focusCell(): { batch: number; length: number } {
    const { batch, length } = this.#focus;
    if (this.#batches.includes(batch) && this.#lengths.includes(length)) return this.#focus;
    return { batch: this.#batches[0] ?? 0, length: this.#lengths.at(-1) ?? 0 };
  }

  #onKey = (event: KeyboardEvent): void => {
    const move: Record<string, [number, number]> = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };
    let step = move[event.key];
    if (!step) return;
    event.preventDefault();
    if (!this.#wide) step = [step[1], step[0]];
    const now = this.#focusCell();
    const pick = (list: number[], value: number, by: number) => list[Math.max(0, Math.min(list.length - 1, list.indexOf(value) + by))]!;
    this.#focus = { batch: pick(this.#batches, now.batch, step[0]), length: pick(this.#lengths, now.length, step[1]) };
    this.requestUpdate();
    void this.updateComplete.then(() => (this.querySelector(`[data-batch="${this.#focus.batch}"][data-length="${this.#focus.length}"]`) as HTMLElement | null)?.focus());
  };
}

define('wf-sweep', Sweep);
