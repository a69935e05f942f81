// One stacked bar: the peak by category, what the pool holds besides, against what cards have.
import { html, nothing, type TemplateResult } from 'lit';
import { GROUPS, grouped } from '../data/palette.js';
import { Slicer } from '../data/slicer.js';
import { bytes, fixed } from '../data/units.js';
import { Chart } from './chart.js';
import { define, reducedMotion } from './part.js';
import { nextPrefix, patternDefs, svg } from './patterns.js';
import { mark } from './verdict.js';

/** Cards people ask about, smallest first. */
const CARDS = ['t4', 'rtx-4090', 'a100-sxm4-40gb', 'a40', 'h100-sxm', 'h200'];
const SHORT: Record<string, string> = {
  t4: 'T4', 'rtx-4090': 'RTX 4090', 'a100-sxm4-40gb': 'A100 40', a40: 'A40', 'h100-sxm': 'H100', 'h200': 'H200',
};
const HEIGHT = 34;

export class Bar extends Chart {
  protected readonly topics = ['report', 'unit', 'engine', 'fit'] as const;
  #prefix = nextPrefix();
  /** Made once: a new pattern would make the browser paint everything anew on every frame. */
  #defs = patternDefs(this.#prefix);
  #cards = new Map<string, boolean>();
  #cardsOf = '';
  #work = new Slicer();

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    this.#work.cancel();
  }

  protected override resized(): void {
    this.#paint();
  }

  protected override render(): TemplateResult | typeof nothing {
    const { session } = this;
    const { report, unit } = session;
    if (!report) return nothing;
    const sums = grouped(report.categories);
    const slack = Math.max(0, report.peak.reserved - report.peak.allocated);
    return html`<svg class="bar" part="bar" data-testid="bar" role="img" height=${HEIGHT + 34}
        @click=${this.#pick} aria-label=${`At the peak: ${GROUPS.map((group, i) => `${group.label} ${bytes(sums[i]!, unit)}`).join(', ')}`}></svg>
      <table class="legend" part="legend" data-testid="bar-table" data-quarto-disable-processing="true">
        <caption class="hidden">Memory at the peak, by category</caption>
        <tbody>
          ${GROUPS.map((group, i) => (sums[i]! > 0 ? row(group.id, group.label, bytes(sums[i]!, unit)) : nothing))}
          ${slack > 0 ? row('pool', 'held by the pool, unused', bytes(slack, unit)) : nothing}
        </tbody>
      </table>
      ${this.#chips()}`;
  }

  protected override updated(): void {
    this.#paint();
  }

  protected override changed(): void {
    super.changed();
    // Other cards are asked when the request's own figures are known: never on the way of a drag.
    if (this.session.fit) this.#askCards();
  }

  #askCards(): void {
    const { session } = this;
    const key = JSON.stringify({ ...session.value, device: '' });
    if (key === this.#cardsOf || !session.engine) return;
    const ids = CARDS.filter((id) => session.engine!.devices.some((card) => card.id === id));
    const found = new Map<string, boolean>();
    let next = 0;
    void this.#work.run(
      () => {
        const id = ids[next++];
        if (id === undefined) return false;
        const run = session.engine!.open({ ...session.value, device: id });
        if (!Array.isArray(run)) {
          found.set(id, run.summary().verdict === 'fits');
          run.close();
        }
        return next < ids.length;
      },
      (done) => {
        if (!done) return;
        this.#cards = found;
        this.#cardsOf = key;
        this.requestUpdate();
      },
    );
  }

  #chips(): TemplateResult | typeof nothing {
    if (this.#cards.size === 0) return nothing;
    const fresh = this.#cardsOf === JSON.stringify({ ...this.session.value, device: '' });
    return html`<ul class="cards ${fresh ? '' : 'pending'}" data-testid="cards" aria-label="On other cards">
      ${[...this.#cards].map(([id, fits]) => {
        const card = this.session.engine!.devices.find((device) => device.id === id)!;
        return html`<li class=${fits ? 'ok' : 'bad'}>
          <button type="button" class="chip" part="button" aria-pressed=${this.session.value.device === id ? 'true' : 'false'}
            title=${`${card.name}: ${fixed(card.free_mib * 1024 * 1024, this.session.unit)} free`}
            @click=${() => this.session.set(['device'], id)}>${mark(fits ? 'fits' : 'oom')}${SHORT[id] ?? card.name}<span class="hidden">: ${fits ? 'fits' : 'out of memory'}</span></button>
        </li>`;
      })}
    </ul>`;
  }

  /** A piece shows its tensors in the ledger, where there is one (whose own choice does the same for keys). */
  #pick = (event: MouseEvent): void => {
    const group = GROUPS[Number((event.target as SVGElement).dataset.group ?? -1)];
    const ledger = (this.getRootNode() as ShadowRoot).querySelector('wf-ledger');
    if (!group || !ledger) return;
    this.session.setFilter(group.categories);
    ledger.scrollIntoView({ block: 'nearest', behavior: reducedMotion() ? 'auto' : 'smooth' });
  };

  #paint(): void {
    const picture = this.querySelector('svg.bar') as SVGSVGElement | null;
    const { session } = this;
    const { report } = session;
    const { width } = this;
    if (!picture || !report || width < 10) return;
    const free = session.free;
    const top = Math.max(free, report.peak.reserved) * 1.04;
    const x = (value: number) => Math.round((value / top) * width * 10) / 10;
    const parts: SVGElement[] = [this.#defs, svg('rect', { class: 'bar-ground', x: 0, y: 0, width: x(free), height: HEIGHT, rx: 3 })];
    let from = 0;
    grouped(report.categories).forEach((value, i) => {
      if (value <= 0) return;
      const left = x(from);
      from += value;
      const wide = x(from) - left;
      if (wide < 0.1) return;
      const piece = svg('rect', { x: left, y: 0, width: wide, height: HEIGHT, fill: `url(#${this.#prefix}-${GROUPS[i]!.id})`, class: 'bar-piece' });
      piece.dataset.group = String(i);
      parts.push(piece);
      const label = GROUPS[i]!.label;
      if (wide > label.length * 6.6 + 12) {
        const text = svg('text', { x: left + 7, y: HEIGHT / 2 + 4, class: `on-colour on-${GROUPS[i]!.id}` });
        text.textContent = label;
        parts.push(text);
      }
    });
    if (report.peak.reserved > from) {
      parts.push(svg('rect', { x: x(from), y: 0, width: x(report.peak.reserved) - x(from), height: HEIGHT, fill: `url(#${this.#prefix}-pool)`, class: 'bar-pool' }));
    }
    parts.push(...this.#ticks(x, free, top, width));
    picture.setAttribute('viewBox', `0 0 ${width} ${HEIGHT + 34}`);
    picture.replaceChildren(...parts);
  }

  /** The chosen card's limit, and those of others where there is room for a name. */
  #ticks(x: (value: number) => number, free: number, top: number, width: number): SVGElement[] {
    const { session } = this;
    const out: SVGElement[] = [];
    const own = svg('g', { class: 'bar-limit' });
    own.append(svg('path', { d: `M${x(free)} -2V${HEIGHT + 8}` }));
    const name = `${session.deviceName.replace(/^NVIDIA (GeForce )?/, '')} ${fixed(free, session.unit, session.unit === 'MiB' ? 0 : 1)}`;
    const text = svg('text', { x: x(free), y: HEIGHT + 24, 'text-anchor': 'end', class: 'tick-own' });
    text.textContent = name;
    own.append(text);
    out.push(own);
    let last = -Infinity;
    const stop = x(free) - name.length * 6.8 - 10;
    for (const id of CARDS) {
      const card = session.engine?.devices.find((device) => device.id === id);
      const limit = (card?.free_mib ?? 0) * 1024 * 1024;
      if (!card || limit <= 0 || limit >= top || id === session.value.device) continue;
      const at = x(limit);
      const wide = (SHORT[id] ?? card.name).length * 6.6;
      if (at - wide / 2 < last + 10 || at + wide / 2 > (at < x(free) ? stop : width)) continue;
      last = at + wide / 2;
      const tick = svg('g', { class: 'bar-tick' });
      tick.append(svg('path', { d: `M${at} ${HEIGHT}V${HEIGHT + 8}` }));
      const label = svg('text', { x: at, y: HEIGHT + 24, 'text-anchor': 'middle' });
      label.textContent = SHORT[id] ?? card.name;
      tick.append(label);
      out.push(tick);
    }
    return out;
  }
}

function row(id: string, label: string, value: string): TemplateResult {
  return html`<tr><th scope="row"><i class="swatch swatch-${id}" aria-hidden="true"></i>${label}</th><td>${value}</td></tr>`;
}

define('wf-bar', Bar);
