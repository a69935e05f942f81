// What to change: every switch that is not used yet, tried for real by the core, with what it buys and what it costs.
import { html, nothing, type TemplateResult } from 'lit';
import { styleMap } from 'lit/directives/style-map.js';
import { isObject } from '../data/fields.js';
import type { Advice, Json, Request } from '../data/types.js';
import { bytes, count } from '../data/units.js';
import { define, Part } from './part.js';
import { mark, short } from './verdict.js';

/** The changes that one advice stands for. */
export function adviceChanges(advice: Advice, now: Request): { path: string[]; value: Json }[] {
  // The core sends the whole changed request along; what differs is the change (half the batch also doubles the accumulation).
  if (advice.request) {
    const changed = advice.request;
    return Object.keys(changed)
      .filter((key) => JSON.stringify(changed[key]) !== JSON.stringify(now[key]))
      .map((key) => ({ path: [key], value: changed[key]! }));
  }
  if (isObject(advice.value)) return Object.entries(advice.value).map(([key, value]) => ({ path: [advice.key, key], value }));
  return [{ path: [advice.key], value: advice.value }];
}

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
      ${advice ? this.#table(advice.advice, advice.done) : html`<p class="muted" aria-busy="true">Trying each change…</p>`}`;
  }

  #table(list: readonly Advice[], done: boolean): TemplateResult {
    const { session } = this;
    const most = Math.max(1, ...list.map((advice) => advice.saves));
    return html`<ul class="advice" data-testid="advice" aria-labelledby="advice-title" aria-busy=${done ? 'false' : 'true'}>
      ${list.map(
        (advice) => html`<li data-key=${advice.key}>
          <div class="advice-text">
            <b>${sentence(advice.title)}</b>
            <span class="muted">costs: ${advice.cost}</span>
          </div>
          <div class="advice-gain">
            <span class="saving" aria-hidden="true"><i style=${styleMap({ 'inline-size': `${Math.max(0, (100 * advice.saves) / most).toFixed(1)}%` })}></i></span>
            <span>${advice.saves === 0 ? 'no change' : advice.saves > 0 ? `−${bytes(advice.saves, session.unit)}` : `+${bytes(-advice.saves, session.unit)}`}</span>
            <span class=${advice.fits ? 'ok' : 'bad'}>${mark(advice.fits ? 'fits' : 'oom')} batch ≤ ${count(advice.largest_batch)}</span>
            ${advice.time_percent === null ? '' : html`<span class="muted">time a token × ${(advice.time_percent / 100).toFixed(2)}</span>`}
          </div>
          <button type="button" part="button" data-testid="apply" aria-label=${`Apply: ${advice.title}`}
            @click=${() => session.apply(adviceChanges(advice, session.value), short(advice.key, advice.value))}>Apply</button>
        </li>`,
      )}
    </ul>`;
  }
}

const sentence = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

define('wf-advice', AdviceList);
