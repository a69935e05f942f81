// The controls. Each is a native element with a label; what is wrong with a value is said below it, and the value stays as typed.
import { html, nothing, type TemplateResult } from 'lit';
import { guard } from 'lit/directives/guard.js';
import { live } from 'lit/directives/live.js';
import { FIELDS, fieldOf, fieldOfKey, get, type Field } from '../data/fields.js';
import { clip } from '../data/link.js';
import { positionsOf } from '../data/session.js';
import type { Json } from '../data/types.js';
import { count, parameters, parseWhole } from '../data/units.js';
import { define, Part } from './part.js';

export class Controls extends Part {
  static override properties = { ...Part.properties, only: { attribute: false } };
  /** Names of the fields that are offered; all if empty. */
  declare only: readonly string[];
  protected readonly topics = ['report', 'problems', 'fit', 'engine'] as const;
  /** The sliders' ends stay put while one is held. */
  #held = false;
  #batchEnd = 32;
  #open = new Set<string>();

  protected override render(): TemplateResult {
    const shown = (field: Field) => field.box !== 'hidden' && (!this.only?.length || this.only.includes(field.name));
    const box = (name: Field['box']) => FIELDS.filter((field) => field.box === name && shown(field) && (name !== 'shape' || field.path[1]! in this.session.shape)).map((field) => this.#field(field));
    // An author who names a few controls wants them in sight.
    if (this.only?.length) return html`<div class="fields" data-testid="controls">${FIELDS.filter(shown).map((field) => this.#field(field))}</div>`;
    const custom = typeof this.session.value.device === 'object';
    return html`<div class="fields" data-testid="controls">${box('main')}</div>
      ${this.#details('shape', 'Model shape', box('shape'))} ${this.#details('more', 'Training loop and allocator', box('more'))}
      ${custom ? this.#details('card', 'Card', box('card')) : nothing}`;
  }

  #details(id: string, title: string, fields: TemplateResult[]): TemplateResult {
    const wrong = this.session.problems.some((problem) => fieldOfKey(problem.key)?.box === id);
    return html`<details ?open=${this.#open.has(id) || wrong} data-testid=${`box-${id}`}
        @toggle=${(event: Event) => ((event.target as HTMLDetailsElement).open ? this.#open.add(id) : this.#open.delete(id))}>
      <summary>${title}</summary><div class="fields">${fields}</div></details>`;
  }

  #field(field: Field): TemplateResult {
    const { session } = this;
    const id = `f-${field.name.replace('.', '-')}`;
    const problems = session.problems.filter((problem) => fieldOfKey(problem.key) === field);
    const describedBy = problems.length > 0 ? `${id}-wrong` : field.hint ? `${id}-hint` : nothing;
    const control =
      field.name === 'model' ? this.#model(id)
      : field.name === 'device' ? this.#device(id)
      : field.kind === 'switch' ? this.#switch(field, id)
      : field.kind === 'word' ? this.#select(field, id, describedBy, problems.length > 0)
      : this.#box(field, id, describedBy, problems.length > 0);
    return html`<div class="field ${field.kind} ${field.name === 'batch' || field.name === 'seq-len' ? 'slide' : ''}" data-field=${field.name}>
      ${field.kind === 'switch' ? control : html`<label for=${id}>${field.label}</label>${control}`}
      ${problems.length > 0
        ? html`<p class="wrong" id=${`${id}-wrong`} role="alert" data-testid=${`wrong-${field.name}`}>${problems.map((problem) =>
            problem.value ? html`<b>${clip(problem.value)}</b> ${problem.message}` : problem.message)}</p>`
        : field.hint && field.name !== 'batch' && field.name !== 'seq-len' && field.kind !== 'switch'
          ? html`<p class="hint" id=${`${id}-hint`}>${field.hint}</p>`
          : field.hint ? html`<span class="hidden" id=${`${id}-hint`}>${field.hint}</span>` : nothing}
    </div>`;
  }

  #value(field: Field): Json | undefined {
    const { session } = this;
    const asked = get(session.wanted, field.path);
    if (field.path[0] === 'model' && field.path.length === 2) return asked ?? session.shape[field.path[1]!];
    return asked ?? get(session.value, field.path) ?? field.fallback;
  }

  #change(event: Event, field: Field, value: Json): void {
    this.session.set(field.path, value);
    event.stopPropagation();
  }

  #box(field: Field, id: string, describedBy: string | typeof nothing, wrong: boolean): TemplateResult {
    const value = this.#value(field);
    const text = value === undefined || value === null ? '' : String(value);
    const box = html`<input id=${id} class="number" part="input" type="text" data-testid=${`field-${field.name}`} inputmode=${field.kind === 'whole' ? 'numeric' : 'text'}
      autocomplete="off" spellcheck="false" maxlength="500" aria-invalid=${wrong ? 'true' : 'false'} aria-describedby=${describedBy} .value=${live(text)}
      @input=${stop} @change=${(event: Event) => {
        const typed = (event.target as HTMLInputElement).value;
        this.#change(event, field, field.kind === 'whole' ? (parseWhole(typed) ?? typed) : typed);
      }}>`;
    if (field.name !== 'batch' && field.name !== 'seq-len') return box;
    return html`<div class="slider">${this.#slider(field, id, value)}${box}</div>`;
  }

  #slider(field: Field, id: string, value: Json | undefined): TemplateResult {
    const batch = field.name === 'batch';
    const stops = batch ? this.#batchStops() : this.#lengthStops();
    const now = typeof value === 'number' ? value : 1;
    let index = stops.findIndex((stop) => stop >= now);
    if (index < 0) index = stops.length - 1;
    const { fit } = this.session;
    const mark = batch && fit && fit.largest >= 1 && fit.largest < stops.at(-1)! ? stops.findIndex((stop) => stop > fit.largest) - 0.5 : -1;
    return html`<span class="track">
      <input type="range" part="slider" data-testid=${`slider-${field.name}`} aria-label=${`${field.label}, slider`} min="0" max=${stops.length - 1} step="1"
        .value=${live(String(index))} aria-valuetext=${batch ? `${count(now)} sequences` : `${count(now)} tokens`} aria-describedby=${`${id}-hint`}
        @pointerdown=${() => (this.#held = true)} @pointerup=${this.#release} @pointercancel=${this.#release}
        @change=${(event: Event) => event.stopPropagation()}
        @input=${(event: Event) => this.#change(event, field, stops[Number((event.target as HTMLInputElement).value)]!)}>
      ${mark > 0 ? html`<svg class="limit-mark" aria-hidden="true" width="100%" height="8"><rect x=${`${((100 * mark) / (stops.length - 1)).toFixed(2)}%`} width=${`${(100 - (100 * mark) / (stops.length - 1)).toFixed(2)}%`} y="2" height="4"></rect></svg>` : nothing}
    </span>`;
  }

  #release = (): void => {
    this.#held = false;
    this.requestUpdate();
  };

  /** Every batch up to well past the limit; sparser where there are hundreds. */
  #batchStops(): number[] {
    const { session } = this;
    const now = typeof session.value.batch === 'number' ? session.value.batch : 1;
    if (!this.#held) {
      const largest = (session.fit ?? session.lastFit)?.largest ?? 16;
      this.#batchEnd = Math.min(1 << 20, Math.max(12, Math.ceil(Math.min(largest, 1 << 19) * 1.6), now));
    }
    const stops: number[] = [];
    for (let value = 1; value <= this.#batchEnd; value += Math.max(1, Math.floor(value / 128))) stops.push(value);
    const limit = session.fit?.largest ?? 0;
    for (const value of [limit, limit + 1, now, this.#batchEnd]) if (value >= 1 && value <= this.#batchEnd && !stops.includes(value)) stops.push(value);
    return stops.sort((a, b) => a - b);
  }

  #lengthStops(): number[] {
    const most = this.session.positions ?? 1024;
    const now = typeof this.session.value.seq_len === 'number' ? this.session.value.seq_len : most;
    const stops = new Set<number>([most, Math.min(now, most)]);
    for (let power = 32; power < most; power *= 2) {
      for (const value of [power, power * 1.25, power * 1.5, power * 1.75]) if (value < most && value >= 32) stops.add(value);
    }
    return [...stops].sort((a, b) => a - b);
  }

  #select(field: Field, id: string, describedBy: string | typeof nothing, wrong: boolean): TemplateResult {
    const value = String(this.#value(field) ?? '');
    const known = field.choices!.some((choice) => choice.value === value);
    return html`<select id=${id} part="input" data-testid=${`field-${field.name}`} aria-invalid=${wrong ? 'true' : 'false'} aria-describedby=${describedBy}
      .value=${live(value)} @input=${stop} @change=${(event: Event) => this.#change(event, field, (event.target as HTMLSelectElement).value)}>
      ${known ? nothing : html`<option value=${value} selected>${clip(value)}</option>`}
      ${field.choices!.map((choice) => html`<option value=${choice.value} ?selected=${choice.value === value}>${choice.label}</option>`)}
    </select>`;
  }

  #switch(field: Field, id: string): TemplateResult {
    return html`<label class="check"><input id=${id} type="checkbox" part="input" data-testid=${`field-${field.name}`} .checked=${live(this.#value(field) === true)}
      @input=${stop} @change=${(event: Event) => this.#change(event, field, (event.target as HTMLInputElement).checked)}>
      <span>${field.label} <small>${field.hint ?? ''}</small></span></label>`;
  }

  #model(id: string): TemplateResult {
    const { engine } = this.session;
    const value = this.#value(fieldOf('model')!);
    const chosen = typeof value === 'string' ? value : '';
    const unknown = chosen !== '' && !engine?.models.some((model) => model.id === chosen);
    return html`<select id=${id} part="input" data-testid="field-model" .value=${live(chosen)} aria-invalid=${this.#invalid('model')} @input=${stop}
      @change=${(event: Event) => this.#pick(event, 'model')}>
      ${chosen === '' ? html`<option value="" selected>own shape</option>` : nothing}
      ${unknown ? html`<option value=${chosen} selected>${clip(chosen)}</option>` : nothing}
      ${[...new Set(engine?.models.map((model) => model.config.model_type))].map((type) => html`<optgroup label=${String(type)}>${engine!.models
        .filter((model) => model.config.model_type === type)
        .map((model) => html`<option value=${model.id} ?selected=${model.id === chosen}>${model.id} · ${parameters(model.parameters)}</option>`)}</optgroup>`)}
      ${engine && engine.modelsToCome.length > 0
        ? html`<optgroup label="to come">${engine.modelsToCome.map((model) => html`<option value=${model} disabled>${model}</option>`)}</optgroup>`
        : nothing}
    </select>`;
  }

  #device(id: string): TemplateResult {
    const { engine } = this.session;
    const value = this.#value(fieldOf('device')!);
    const chosen = typeof value === 'string' ? value : '';
    const vendors = [...new Set(engine?.devices.map((device) => device.vendor))];
    const unknown = chosen !== '' && !engine?.devices.some((device) => device.id === chosen);
    return html`<select id=${id} part="input" data-testid="field-device" .value=${live(chosen)} aria-invalid=${this.#invalid('device')} @input=${stop}
      @change=${(event: Event) => this.#pick(event, 'device')}>
      ${unknown ? html`<option value=${chosen} selected>${clip(chosen)}</option>` : nothing}
      ${guard([engine, chosen], () => vendors.map((vendor) => html`<optgroup label=${vendor}>${engine!.devices.filter((device) => device.vendor === vendor).map((device) =>
        html`<option value=${device.id} ?selected=${device.id === chosen} ?disabled=${device.missing !== ''}>${device.name}${device.missing ? ' (no CUDA figures)' : ` · ${(device.free_mib / 1024).toFixed(1)} GiB free`}</option>`)}</optgroup>`))}
      <option value="" ?selected=${chosen === ''}>another card…</option>
    </select>`;
  }

  #invalid(name: string): string {
    return this.session.problems.some((problem) => fieldOfKey(problem.key)?.name === name) ? 'true' : 'false';
  }

  #pick(event: Event, key: 'model' | 'device'): void {
    event.stopPropagation();
    const id = (event.target as HTMLSelectElement).value;
    const { session } = this;
    if (id !== '') {
      // A length that the next model cannot have would be refused; leaving it out takes that model's own.
      const positions = key === 'model' ? positionsOf(session.preset(id)?.config ?? {}) : undefined;
      const tooLong = positions !== undefined && Number(session.value.seq_len) > positions;
      session.apply([{ path: [key], value: id }, ...(tooLong ? [{ path: ['seq_len'], value: positions as Json }] : [])], `${key}: ${id}`);
    } else if (key === 'device') {
      this.#open.add('card');
      session.set(['device', 'name'], 'another card');
    }
  }
}

/** The element's own `input` and `change` say that the answer changed; those of its insides stay inside. */
function stop(event: Event): void {
  event.stopPropagation();
}

define('wf-controls', Controls);
