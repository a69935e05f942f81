// Import of a config.json: paste, drop or pick. Nothing is uploaded; nothing in it is executed.
import { html, nothing, type TemplateResult } from 'lit';
import { importText, IMPORT_BYTES } from '../data/import.js';
import { define, Part } from './part.js';

export class Import extends Part {
  static override properties = { ...Part.properties, said: { state: true }, refused: { state: true } };
  declare said: string[];
  declare refused: string[];
  protected readonly topics = ['engine'] as const;

  constructor() {
    super();
    this.said = [];
    this.refused = [];
  }

  override connectedCallback(): void {
    super.connectedCallback();
    this.session.onConfigFile = (file) => void this.#take(file);
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    this.session.onConfigFile = undefined;
  }

  protected override render(): TemplateResult {
    return html`<div class="section-head"><h3 id="import-title">Your own model</h3></div>
      <div class="drop" data-testid="drop" role="group" aria-labelledby="import-title">
        <label for="import-text">A <code>config.json</code> of Hugging Face: paste it, drop the file here, or choose it. It stays on this page.</label>
        <textarea id="import-text" part="input" data-testid="import-text" spellcheck="false" placeholder='{"model_type": "gpt2-from-scratch", "n_layer": 24, "n_embd": 1024, "n_head": 16}'
          @input=${stop} @change=${stop}></textarea>
        <div class="row">
          <button type="button" class="primary" part="button" data-testid="import-read" @click=${this.#paste}>Read it</button>
          <label class="hidden" for="import-file">Choose a file</label>
          <input id="import-file" type="file" accept=".json,application/json" data-testid="import-file" @input=${stop} @change=${this.#file}>
        </div>
        <div class="said" role="status" data-testid="import-said">
          ${this.refused.length > 0 ? html`<b class="bad">Not taken.</b><ul data-testid="import-refused">${this.refused.map((line) => html`<li>${line}</li>`)}</ul>` : nothing}
          ${this.said.length > 0 ? html`<b class="ok">Taken.</b><ul>${this.said.map((line) => html`<li>${line}</li>`)}</ul>` : nothing}
        </div>
      </div>`;
  }

  #read(text: string): void {
    const { session } = this;
    if (!session.engine) return;
    const result = importText(text, session.value, session.engine);
    this.refused = 'refused' in result ? result.refused : [];
    this.said = 'request' in result ? result.said : [];
    if ('request' in result) session.replace(result.request, 'import');
  }

  #paste = (): void => {
    const box = this.querySelector('textarea')!;
    if (box.value.trim() === '') {
      this.refused = ['There is nothing to read yet.'];
      this.said = [];
    } else this.#read(box.value);
  };

  async #take(file: File): Promise<void> {
    if (file.size > IMPORT_BYTES) {
      this.said = [];
      this.refused = [`The file has ${(file.size / 1e6).toFixed(1)} MB; a config.json has a few kilobytes, and at most 1 MiB is read.`];
      return;
    }
    this.#read(await file.text());
  }

  #file = (event: Event): void => {
    event.stopPropagation();
    const file = (event.target as HTMLInputElement).files?.[0];
    if (file) void this.session.offer(file);
  };
}

function stop(event: Event): void {
  event.stopPropagation();
}

define('wf-import', Import);
