// A place for the reader's own run: a memory snapshot is dropped or chosen here. What reads and shows it is a second script.
import { html, nothing, type TemplateResult } from 'lit';
import { loadReader } from '../data/snapshot-file.js';
import { parseWhole } from '../data/units.js';
import { define, Part } from './part.js';

export class Measured extends Part {
  static override properties = { ...Part.properties, ready: { state: true }, missing: { state: true }, range: { state: true } };
  declare ready: boolean;
  declare missing: string;
  declare range: { first?: number; last?: number };
  protected readonly topics = ['engine', 'snapshot'] as const;

  constructor() {
    super();
    this.ready = false;
    this.missing = '';
    this.range = {};
  }

  protected override render(): TemplateResult {
    const { snapshot } = this.session;
    if (snapshot && !this.ready && !this.missing) void this.#load();
    return html`<div class="section-head"><h3 id="measured-title">Your own run</h3></div>
      <div class="drop" data-testid="measured-drop" role="group" aria-labelledby="measured-title">
        <label for="measured-file">A memory snapshot of PyTorch, as <code>torch.cuda.memory._dump_snapshot()</code> writes it: drop the .pickle or .pickle.gz
          here, or choose it. It is read on this page and never leaves it.</label>
        <input id="measured-file" type="file" accept=".pickle,.pkl,.gz" data-testid="measured-file" @input=${stop} @change=${this.#file}>
        <details><summary>Of a long recording, only some events</summary>
          <div class="row">
            ${this.#bound('first', 'from event')}${this.#bound('last', 'to event')}
            ${snapshot ? html`<button type="button" part="button" data-testid="measured-again" @click=${() => void this.session.offer(snapshot)}>Read it again</button>` : nothing}
          </div>
          <p class="hint">Up to 1,000,000 events are kept, and files of up to 2 GiB (unpacked) are read. The terminal’s <code>whatfits compare</code> has neither limit.</p>
        </details>
      </div>
      ${this.missing ? html`<p class="bad" role="alert" data-testid="measured-missing">${this.missing}.</p>` : nothing}
      ${snapshot && this.ready ? html`<wf-recording .session=${this.session} .file=${snapshot} .range=${this.range}></wf-recording>` : nothing}`;
  }

  #bound(which: 'first' | 'last', name: string): TemplateResult {
    return html`<label class="check"><span>${name}</span><input class="number" inputmode="numeric" size="9" part="input" data-testid=${`measured-${which}`}
      @input=${stop} @change=${(event: Event) => {
        stop(event);
        this.range = { ...this.range, [which]: parseWhole((event.target as HTMLInputElement).value) };
      }}></label>`;
  }

  async #load(): Promise<void> {
    try {
      await loadReader();
      this.ready = true;
    } catch (error) {
      this.missing = (error as Error).message;
    }
  }

  #file = (event: Event): void => {
    event.stopPropagation();
    const input = event.target as HTMLInputElement;
    const file = input.files?.[0];
    this.missing = '';
    if (file) this.session.look(undefined), void this.session.offer(file);
    input.value = ''; // the same file may be chosen again
  };
}

function stop(event: Event): void {
  event.stopPropagation();
}

define('wf-measured', Measured);
