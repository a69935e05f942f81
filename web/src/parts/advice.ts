// What to change: every switch that is not used yet, tried for real by the core, with what it buys and what it costs.
import { html, nothing, type TemplateResult } from 'lit';
import { styleMap } from 'lit/directives/style-map.js';
import type { Advice, Json } from '../data/types.js';
import { bytes, count } from '../data/units.js';
import { define, Part } from './part.js';
import { mark } from './verdict.js';

/** What one advice changes, for the session. */
export const adviceChanges = (advice: Advice): { path: string[]; value: Json }[] =>
  advice.changes.map(({ key, value }) => ({ path: key.split('.'), value }));

const EFFECT = { same: 'same result', rounding: 'rounded more', other: 'another result' } as const;

export class AdviceList extends Part {
  protected readonly topics = ['report', 'advice', 'unit'] as const;

  protected override render(): TemplateResult {
    const { session } = this;
    const { advice } = session;
    return html`<div class="section-head"><h3 id="advice-title">What to change</h3>
      ${session.undoable === undefined
        ? nothing
        : html`<button type="button" class="quiet" part="button" data-testid="undo" @click=${() => session.undo()}>Undo: ${session.undoable}</button>`}
      </div>
      ${advice ? this.#lists(advice.advice, advice.done) : html`<p class="muted" aria-busy="true">Trying each change…</p>`}`;
  }

  /** A pair is no new idea, only what two of the others come to: apart, and last. */
  #lists(all: readonly Advice[], done: boolean): TemplateResult {
    const pairs = all.filter((advice) => advice.pair);
    const most = Math.max(1, ...all.map((advice) => advice.saves));
    return html`${this.#list(all.filter((advice) => !advice.pair), most, done, 'advice')}
      ${pairs.length === 0 ? nothing : html`<h4 id="advice-pairs-title">Two at once</h4>${this.#list(pairs, most, done, 'advice-pairs')}`}`;
  }

  #list(some: readonly Advice[], most: number, done: boolean, name: string): TemplateResult {
    const { session } = this;
    return html`<ul class="advice" data-testid=${name} aria-labelledby=${`${name}-title`} aria-busy=${done ? 'false' : 'true'}>
      ${some.map(
        (advice) => html`<li data-key=${advice.changes.map(({ key }) => key).join(' ')}>
          <div class="advice-text">
            <b>${sentence(advice.title)}</b>
            <span class="muted">${EFFECT[advice.effect]}; costs: ${advice.cost}</span>
          </div>
          <div class="advice-gain">
            <span class="saving" aria-hidden="true"><i style=${styleMap({ 'inline-size': `${Math.max(0, (100 * advice.saves) / most).toFixed(1)}%` })}></i></span>
            <span>${advice.saves === 0 ? 'no change' : advice.saves > 0 ? `−${bytes(advice.saves, session.unit)}` : `+${bytes(-advice.saves, session.unit)}`}</span>
            <span class=${advice.fits ? 'ok' : 'bad'}>${mark(advice.fits ? 'fits' : 'oom')} batch ≤ ${count(advice.largest_batch)}</span>
            ${advice.time_percent === null ? '' : html`<span class="muted">time a token × ${(advice.time_percent / 100).toFixed(2)}</span>`}
          </div>
          <button type="button" part="button" data-testid="apply" aria-label=${`Apply: ${advice.title}`}
            @click=${() => session.apply(adviceChanges(advice), advice.name)}>Apply</button>
        </li>`,
      )}
    </ul>`;
  }
}

const sentence = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

define('wf-advice', AdviceList);
