// The answer first: whether it fits, the largest batch, what binds, and what to try.
import { html, nothing, type TemplateResult } from 'lit';
import { count, bytes, fixed, parameters, size } from '../data/units.js';
import { adviceChanges } from './advice.js';
import { define, Part } from './part.js';

export class Verdict extends Part {
  protected readonly topics = ['report', 'fit', 'advice', 'problems', 'unit'] as const;

  protected override render(): TemplateResult | typeof nothing {
    const { session } = this;
    const { report } = session;
    if (!report) {
      return session.problems.length > 0
        ? html`<p class="verdict-line" part="verdict-line" data-testid="verdict-line">This request cannot be answered yet</p>`
        : html`<p class="verdict-line loading" part="verdict-line" data-testid="verdict-line">…</p>`;
    }
    const state = session.fits === false ? 'oom' : session.tight ? 'tight' : 'fits';
    return html`
      <div class="verdict-head" data-state=${state} data-testid="verdict" role="status">
        <p class="badge" part="badge" data-testid="state">${mark(state)}${state === 'oom' ? 'out of memory' : state === 'tight' ? 'fits, tightly' : 'fits'}</p>
        ${this.#headline()}
      </div>
      ${session.problems.length > 0
        ? html`<p class="stale" data-testid="stale">This is the last answer that could be given; a field below needs another value.</p>`
        : nothing}
      ${this.#figures()} ${this.#reason()} ${this.#time()} ${this.#try()}
      <p class="assumes" part="assumptions">${this.#assumes()}</p>
    `;
  }

  #headline(): TemplateResult {
    const { session } = this;
    const batch = session.value.batch as number;
    const { fit } = session;
    const largest = html`<strong class="largest ${fit ? '' : 'pending'}" data-testid="largest-batch">${fit ? count(fit.largest) : '…'}</strong>`;
    if (fit?.largest === 0) {
      return html`<p class="verdict-line" part="verdict-line" data-testid="verdict-line">Not even a batch of one fits.</p>`;
    }
    if (fit?.capped) {
      return html`<p class="verdict-line" part="verdict-line" data-testid="verdict-line">Batch ${count(batch)} fits; no limit was met up to ${largest}.</p>`;
    }
    return session.fits === false
      ? html`<p class="verdict-line" part="verdict-line" data-testid="verdict-line">Batch ${count(batch)} does not fit. ${largest} is the largest that does.</p>`
      : html`<p class="verdict-line" part="verdict-line" data-testid="verdict-line">Batch ${count(batch)} fits. ${largest} is the largest that does.</p>`;
  }

  #figures(): TemplateResult {
    const { session } = this;
    const { peak, oom } = session.report!;
    const { unit, free } = session;
    const spare = free - peak.reserved;
    // A MiB that is missing must not read "0.00 GiB".
    const least = (value: number) => (Math.abs(value) < size(unit) / 100 ? bytes(value, unit) : fixed(value, unit));
    const last = oom
      ? { term: 'short by', value: least(Math.max(0, oom.requested - oom.free)), id: 'short' }
      : { term: 'to spare', value: least(spare), id: 'spare' };
    return html`<dl class="figures" part="figures">
      <div><dt>peak allocated</dt><dd data-testid="peak-allocated">${fixed(peak.allocated, unit)}</dd></div>
      <div><dt>peak reserved</dt><dd data-testid="peak-reserved">${fixed(peak.reserved, unit)}</dd></div>
      <div><dt>free on the card</dt><dd data-testid="free">${fixed(free, unit)}</dd></div>
      <div class=${oom ? 'bad' : ''}><dt>${last.term}</dt><dd data-testid=${last.id}>${last.value}</dd></div>
    </dl>`;
  }

  /** Which term binds, in one or two sentences. */
  #reason(): TemplateResult | typeof nothing {
    const { session } = this;
    const { unit, fit, fits } = session;
    const own = session.report!.oom;
    const failure = own ?? fit?.first_failure;
    if (!failure) {
      if (fits === false) return html`<p class="reason" data-testid="bound">The pool never settles: some later step would need more than the ones replayed.</p>`;
      return nothing;
    }
    const at = own ? '' : html`At batch ${count(fit?.first_failure_at ?? 0)}`;
    if (session.report!.accuracy.basis !== 'replay') return html`<p class="reason" data-testid="bound">${at}${at && ': '}${failure.message}.</p>`;
    const where = html`${own ? 'In ' : html`${at}, in `}${phrase(failure.phase)}${failure.layer === null
      ? ''
      : ` of layer ${failure.layer}`} of step ${failure.step}, <code>${failure.op}</code> asks for ${bytes(failure.tensor, unit)}`;
    const sum = failure.allocated + failure.tensor;
    if (sum > session.free) {
      return html`<p class="reason" data-testid="bound">
        ${where} while ${bytes(failure.allocated, unit)} are alive: more than the card has. Live tensors alone bind: <b>allocated</b>.
      </p>`;
    }
    return html`<p class="reason" data-testid="bound">
      ${where}. Tensors alone would come to ${bytes(sum, unit)} and fit; but the pool holds ${bytes(failure.cached_free, unit)} in pieces of at
      most ${bytes(failure.largest_piece, unit)}, and the card has ${bytes(failure.free, unit)} left. What binds is <b>reserved</b>.
    </p>`;
  }

  /** Nothing where a rate is not known: the card's, or the engine's. */
  #time(): TemplateResult | typeof nothing {
    const time = this.session.report!.time;
    if (!time?.microseconds || !time.tokens_per_second) return nothing;
    const [fast, slow] = time.microseconds;
    const [few, many] = time.tokens_per_second;
    const hours = (rate: number) => about(1e9 / rate / 3600);
    return html`<p class="reason" data-testid="time">
      A step takes about ${about(fast / 1000)} to ${about(slow / 1000)} ms: ${about(few)} to ${about(many)} tokens a second, a billion in
      ${hours(many)} to ${hours(few)} hours. <span class="muted">By ${about(time.flops / 1e12)} TFLOP of products and ${about(time.bytes_moved / 1e9)} GB moved;
      assumed: ${time.assumed}.</span>
    </p>`;
  }

  #try(): TemplateResult | typeof nothing {
    const { session } = this;
    if (session.fits !== false || !session.advice) return nothing;
    // What leaves the result alone comes first, then what saves most.
    const fitting = session.advice.advice.filter((advice) => advice.fits);
    const best = (['same', 'rounding', 'other'] as const).flatMap((effect) => fitting.filter((advice) => advice.effect === effect)).slice(0, 3);
    if (best.length === 0) return nothing;
    return html`<div class="try" data-testid="try">
      <span>What to try</span>
      ${best.map(
        (advice) => html`<button type="button" class="chip" part="button" @click=${() => session.apply(adviceChanges(advice), advice.name)}>
          ${advice.name} <span class="muted">batch ${count(advice.largest_batch)}</span>
        </button>`,
      )}
    </div>`;
  }

  #assumes(): TemplateResult {
    const { session } = this;
    const request = session.report!.request;
    const model = typeof request.model === 'string' ? request.model : 'imported model';
    return html`${model}, ${parameters(session.report!.parameters)} parameters · ${count(request.seq_len as number)} tokens · ${request.precision} ·
    ${request.attention} · ${request.optimizer}${request.checkpointing === 'none' ? '' : html` · checkpointing ${request.checkpointing}`} · ${session.deviceName} ·
    ${session.report!.accuracy.basis === 'replay' ? html`PyTorch ${request.torch}, replayed event by event` : session.report!.assumptions[0]}.
    ${session.report!.accuracy.words} ${session.report!.accuracy.real_cards?.words}`;
  }
}

/** To three digits. */
const about = (n: number): string => (n < 10 ? Number(n.toPrecision(2)).toString() : count(Number(n.toPrecision(3))));

export function mark(state: 'fits' | 'tight' | 'oom'): TemplateResult {
  const path = state === 'fits' ? 'M3 8.5L6.5 12L13 4.5' : state === 'oom' ? 'M4 4L12 12M12 4L4 12' : 'M8 3V9M8 12.2V12.4';
  return html`<svg class="mark" viewBox="0 0 16 16" aria-hidden="true"><path d=${path} fill="none" stroke="currentColor" stroke-width="2.2" stroke-linecap="round"/></svg>`;
}

export function phrase(phase: string): string {
  const words: Record<string, string> = { optimizer_step: 'the optimizer step', zero_grad: 'zero_grad', clip: 'clipping' };
  return words[phase] ?? `the ${phase}`;
}

define('wf-verdict', Verdict);
