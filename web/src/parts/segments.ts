// What the caching allocator holds at the cursor: segments, how they are split, and why the next request does not fit in them.
import { html, nothing, type TemplateResult } from 'lit';
import { groupOf } from '../data/palette.js';
import type { Pool, PoolBlock, PoolSegment } from '../data/types.js';
import { bytes, count } from '../data/units.js';
import { Chart, say } from './chart.js';
import { define } from './part.js';
import { nextPrefix, patternDefs } from './patterns.js';
import { paintPool } from './pool-paint.js';

/** Requests up to 1 MiB live in segments of their own. */
const SMALL = 1024 * 1024;

export class Segments extends Chart {
  protected readonly topics = ['report', 'cursor', 'unit'] as const;
  #prefix = nextPrefix();
  #defs = patternDefs(this.#prefix);
  #pool?: Pool;
  #of: { run: unknown; row: number } = { run: undefined, row: -1 };

  protected override changed(): void {
    this.follow();
  }

  #read(): Pool | undefined {
    const { session } = this;
    const timeline = session.timeline;
    if (!session.run || !timeline || timeline.count === 0) return undefined;
    if (this.#of.run !== session.run || this.#of.row !== session.row) {
      // The run's end, when it failed, is one event further than the last that happened.
      const ended = timeline.oom !== null && session.row === timeline.count - 1;
      this.#pool = session.run.pool(timeline.row(session.row).event + (ended ? 1 : 0));
      this.#of = { run: session.run, row: session.row };
    }
    return this.#pool;
  }

  protected override render(): TemplateResult | typeof nothing {
    const { session } = this;
    if (!session.report) return nothing;
    const pool = this.visible ? this.#read() : this.#pool;
    if (!pool) return html`<div class="section-head"><h3>The pool’s segments</h3></div>`;
    const large = pool.segments.filter((segment) => !segment.small);
    const small = pool.segments.filter((segment) => segment.small);
    const free = freeBlocks(large);
    return html`<div class="section-head"><h3>The pool’s segments</h3>
        <span class="muted">${session.cursor === undefined ? (pool.oom ? 'when it fails' : 'at the peak') : `at event ${count(session.row + 1)}`}: ${count(pool.segments.length)} segments, ${bytes(pool.reserved, session.unit)}</span></div>
      <svg class="pool" data-testid="segments" role="img" aria-label=${`${large.length} large segments with ${free.length} free blocks between tensors`}
        @pointermove=${this.#onMove} @pointerleave=${() => say(this, 'segment-readout', '')}></svg>
      <p class="pointed" data-testid="segment-readout"></p>
      <p class="readout" data-testid="segment-why">${this.#why(pool, free)}</p>
      <table class="legend" data-testid="segment-table" data-quarto-disable-processing="true"><caption class="hidden">The pool in figures</caption><tbody>
        ${line('large segments', `${count(large.length)}, ${bytes(sum(large), session.unit)}`)}
        ${line('small segments (requests to 1 MiB)', `${count(small.length)}, ${bytes(sum(small), session.unit)}`)}
        ${line('free in large segments', `${count(free.length)} pieces, ${bytes(free.reduce((total, block) => total + block.size, 0), session.unit)}`)}
        ${line('largest free piece', bytes(Math.max(0, ...free.map((block) => block.size)), session.unit))}
        ${line('left on the card', bytes(Math.max(0, session.free - pool.reserved), session.unit))}
      </tbody></table>`;
  }

  /** Why the next large request does or does not find room. */
  #why(pool: Pool, free: PoolBlock[]): string {
    const { session } = this;
    const { unit } = session;
    const timeline = session.timeline!;
    const largest = Math.max(0, ...free.map((block) => block.size));
    if (pool.oom) {
      const { tensor, requested } = pool.oom;
      return `${pool.oom.op} asks for ${bytes(tensor, unit)}. No free piece is that large (the largest is ${bytes(largest, unit)}), so the pool asks the card for a segment of ${bytes(requested, unit)}; the card has ${bytes(pool.oom.free, unit)} left. Out of memory.`;
    }
    for (let i = session.row + 1; i < timeline.count; i += 1) {
      const next = timeline.row(i);
      if (!next.alloc) continue;
      if (next.bytes <= SMALL) {
        if (i < session.row + 40) continue;
        break;
      }
      const room = next.bytes <= largest;
      return room
        ? `The next large request, ${bytes(next.bytes, unit)} by ${next.op}, finds a free piece.`
        : `The next large request, ${bytes(next.bytes, unit)} by ${next.op}, fits in no free piece as they are now (the largest is ${bytes(largest, unit)}): unless something is freed before, the pool takes a new segment from the card.`;
    }
    return 'No large request follows nearby.';
  }

  protected override updated(): void {
    this.#paint();
  }

  #paint(): void {
    const picture = this.querySelector('svg.pool') as SVGSVGElement | null;
    const pool = this.#pool;
    if (!picture || !pool || this.width < 40) return;
    const large = pool.segments.filter((segment) => !segment.small);
    paintPool(picture, this.width, large, this.#defs, (block: PoolBlock) => ({
      fill: `url(#${this.#prefix}-${block.allocated ? groupOf(block.category).id : 'pool'})`,
      used: block.allocated,
      say: block.allocated
        ? `${block.label}${block.layer === null ? '' : `, layer ${block.layer}`}: ${bytes(block.size, this.session.unit)}`
        : `free: ${bytes(block.size, this.session.unit)}`,
    }));
  }

  #onMove = (event: PointerEvent): void => {
    const text = (event.target as SVGElement).dataset.say;
    if (text) say(this, 'segment-readout', text);
  };
}

const sum = (segments: PoolSegment[]): number => segments.reduce((total, segment) => total + segment.size, 0);

function freeBlocks(segments: PoolSegment[]): PoolBlock[] {
  return segments.flatMap((segment) => segment.blocks.filter((block) => !block.allocated));
}

function line(name: string, value: string): TemplateResult {
  return html`<tr><th scope="row">${name}</th><td>${value}</td></tr>`;
}

define('wf-segments', Segments);
