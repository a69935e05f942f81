// Every tensor alive at the peak or at the cursor: a plain table, sortable and filterable; the accessible form of the pictures.
import { html, nothing, type TemplateResult } from 'lit';
import { live } from 'lit/directives/live.js';
import { categoryLabel, CATEGORIES, groupOf, GROUPS } from '../data/palette.js';
import { gather, layersText, type Line } from '../data/lines.js';
import type { LedgerRow } from '../data/types.js';
import { bytes, count } from '../data/units.js';
import { Chart } from './chart.js';
import { define } from './part.js';

/** Rows shown before "show all". */
const FEW = 24;

/** Each category, and those that the pictures draw together. */
const choices: [string, string][] = [
  ...CATEGORIES.map((category): [string, string] => [category, categoryLabel(category)]),
  ...GROUPS.filter((group) => group.categories.length > 1).map((group): [string, string] => [group.categories.join(), group.label]),
];

type Column = 'bytes' | 'label' | 'category' | 'layer';

export class LedgerTable extends Chart {
  static override properties = { ...Chart.properties, at: { state: true }, sort: { state: true }, layer: { state: true }, byLayer: { state: true }, all: { state: true } };
  declare at: 'peak' | 'cursor';
  declare sort: { column: Column; down: boolean };
  declare layer: string;
  declare byLayer: boolean;
  declare all: boolean;
  protected readonly topics = ['report', 'cursor', 'unit', 'filter'] as const;
  #asked = { run: undefined as unknown, row: -1, rows: [] as LedgerRow[] };

  constructor() {
    super();
    this.at = 'peak';
    this.sort = { column: 'bytes', down: true };
    this.layer = '';
    this.byLayer = false;
    this.all = false;
  }

  protected override changed(): void {
    this.follow();
  }

  #rows(): LedgerRow[] {
    const { session } = this;
    if (this.at === 'peak' || session.cursor === undefined) return session.whole?.ledger ?? [];
    if (this.#asked.run !== session.run || this.#asked.row !== session.row) {
      const event = session.timeline!.row(session.row).event;
      this.#asked = { run: session.run, row: session.row, rows: session.run!.ledger(event).ledger };
    }
    return this.#asked.rows;
  }

  protected override render(): TemplateResult | typeof nothing {
    const { session } = this;
    if (!session.report) return nothing;
    const rows = this.#rows();
    const { filter } = session;
    const layers = [...new Set(rows.map((row) => row.layer).filter((layer) => layer !== null))].sort((a, b) => a - b);
    const kept = rows.filter((row) => (filter.length === 0 || filter.includes(row.category)) && (this.layer === '' || String(row.layer) === this.layer) && row.bytes > 0);
    const lines = gather(kept, this.byLayer || this.layer !== '').sort((a, b) => order(a, b, this.sort));
    const shown = this.all ? lines : lines.slice(0, FEW);
    const total = kept.reduce((sum, row) => sum + row.bytes, 0);
    return html`<div class="section-head"><h3>Every tensor</h3>
        <div class="tools">
          <label><span class="hidden">Alive at</span><select part="input" data-testid="ledger-at" @input=${stop} @change=${(event: Event) => { stop(event); this.at = (event.target as HTMLSelectElement).value as 'peak'; }}>
            <option value="peak" ?selected=${this.at === 'peak'}>alive at the peak</option><option value="cursor" ?selected=${this.at === 'cursor'}>alive at the cursor</option></select></label>
          <label><span class="hidden">Category</span><select part="input" data-testid="ledger-category" @input=${stop} @change=${(event: Event) => { stop(event); session.setFilter((event.target as HTMLSelectElement).value.split(',').filter(Boolean)); }} .value=${live(filter.join())}>
            <option value="">every category</option>${choices.map(([value, label]) => html`<option value=${value} ?selected=${value === filter.join()}>${label}</option>`)}</select></label>
          <label><span class="hidden">Layer</span><select part="input" data-testid="ledger-layer" @input=${stop} @change=${(event: Event) => { stop(event); this.layer = (event.target as HTMLSelectElement).value; }}>
            <option value="">all layers</option>${layers.map((layer) => html`<option value=${layer} ?selected=${String(layer) === this.layer}>layer ${layer}</option>`)}</select></label>
          <label class="check"><input type="checkbox" data-testid="ledger-by-layer" .checked=${this.byLayer} @input=${stop} @change=${(event: Event) => { stop(event); this.byLayer = (event.target as HTMLInputElement).checked; }}><span>layer by layer</span></label>
        </div>
      </div>
      <table class="ledger" part="ledger" data-testid="ledger" data-quarto-disable-processing="true">
        <caption>${count(lines.length)} ${lines.length === 1 ? 'row' : 'rows'}, ${bytes(total, session.unit)} ${this.at === 'peak' ? 'alive at the peak' : 'alive at the cursor'}</caption>
        <thead><tr>
          ${this.#head('label', 'tensor')}${this.#head('category', 'for')}${this.#head('layer', 'layer')}
          <th scope="col" class="shape">shape</th><th scope="col" class="formula">formula</th>${this.#head('bytes', 'size')}
        </tr></thead>
        <tbody>${shown.map((line) => this.#line(line))}</tbody>
      </table>
      ${lines.length > FEW
        ? html`<button type="button" class="quiet" part="button" data-testid="ledger-all" @click=${() => (this.all = !this.all)}>${this.all ? 'Show the largest only' : `Show all ${count(lines.length)}`}</button>`
        : nothing}`;
  }

  #line(line: Line): TemplateResult {
    return html`<tr>
      <th scope="row"><i class="swatch swatch-${groupOf(line.category).id}" aria-hidden="true"></i>${line.label}<span class="op">${line.label === line.op || line.op === 'none' ? '' : line.op}</span></th>
      <td class="category">${categoryLabel(line.category)}</td>
      <td class="layer">${layersText(line.layers)}</td>
      <td class="shape">${line.shape.length > 0 ? html`${line.count > 1 ? html`${count(line.count)} × ` : nothing}[${line.shape.join(', ')}] <span class="muted">${line.dtype}</span>` : nothing}</td>
      <td class="formula">${line.formula}</td>
      <td class="bytes">${bytes(line.bytes, this.session.unit)}</td>
    </tr>`;
  }

  #head(column: Column, title: string): TemplateResult {
    const active = this.sort.column === column;
    return html`<th scope="col" class=${column} aria-sort=${active ? (this.sort.down ? 'descending' : 'ascending') : 'none'}>
      <button type="button" data-testid=${`sort-${column}`} @click=${() => (this.sort = { column, down: active ? !this.sort.down : column === 'bytes' })}>${title}<span aria-hidden="true">${active ? (this.sort.down ? ' ↓' : ' ↑') : ''}</span></button></th>`;
  }
}

function order(a: Line, b: Line, { column, down }: { column: Column; down: boolean }): number {
  const sign = down ? -1 : 1;
  const by = column === 'bytes' ? a.bytes - b.bytes
    : column === 'layer' ? (a.layers[0] ?? -1) - (b.layers[0] ?? -1)
    : a[column].localeCompare(b[column]);
  return by !== 0 ? sign * by : b.bytes - a.bytes;
}

function stop(event: Event): void {
  event.stopPropagation();
}

define('wf-ledger', LedgerTable);
