// A place for the reader's own run: a memory snapshot is dropped or chosen here. What reads and shows it is a second script.
import { html, nothing, type TemplateResult } from 'lit';
import { loadReader } from '../data/snapshot-file.js';
import { parseWhole } from '../data/units.js';
import { define, Part } from './part.js';

export class Measured extends Part {
  static override properties = { ...Part.properties, ready: { state: true }, missing: { state: true }, first: { state: true } };
  declare ready: boolean;
  declare missing: string;
  /** Events before it are left out. */
  declare first: number;
  protected readonly topics = ['engine', 'snapshot'] as const;

  constructor() {
    super();
    this.ready = false;
    this.missing = '';
    this.first = 0;
  }

  protected override render(): TemplateResult {
    const { snapshot } = this.session;
    if (snapshot && !this.ready && !this.missing) void this.#load();
    return html`<div class="section-head"><h3 id="measured-title">Your own run</h3></div>
      <div class="drop" data-testid="measured-drop" role="group" aria-labelledby="measured-title">
        <label for="measured-file">A memory snapshot of PyTorch, as <code>torch.cuda.memory._dump_snapshot()</code> writes it: drop the .pickle or .pickle.gz
          here, or choose it. It is read on this page and never leaves it.</label>
        <input id="measured-file" type="file" accept=".pickle,.pkl,.gz" data-testid="measured-file" @input=${stop} @change=${this.#file}>
        <details><summary>Of a long recording, only its end</summary>
          <div class="row">
            <label class="check"><span>from event</span><input class="number" inputmode="numeric" size="9" part="input" data-testid="measured-first" @input=${stop} @change=${this.#from}></label>
            ${snapshot ? html`<button type="button" part="button" data-testid="measured-again" @click=${() => this.session.openSnapshot(new File([snapshot], snapshot.name))}>Read it again</button>` : nothing}
          </div>
          <p class="hint">Files of up to 2 GiB (unpacked) are read, and up to 1,000,000 events shown. The terminal’s <code>whatfits compare</code> has neither limit.</p>
        </details>
      </div>
      ${this.missing ? html`<p class="bad" role="alert" data-testid="measured-missing">${this.missing}.</p>` : nothing}
      ${snapshot && this.ready ? html`<wf-recording .session=${this.session} .file=${snapshot} .first=${this.first}></wf-recording>` : nothing}`;
  }

  #from = (event: Event): void => {
    event.stopPropagation();
    this.first = parseWhole((event.target as HTMLInputElement).value) ?? 0;
  };

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
    if (file) this.session.openSnapshot(file);
    input.value = ''; // the same file may be chosen again
  };
}

function stop(event: Event): void {
  event.stopPropagation();
}

define('wf-measured', Measured);
