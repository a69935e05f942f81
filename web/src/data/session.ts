// The state of one element: what is asked, what was answered last, what is still being computed. Parts subscribe to topics and
// change it through its methods only. A wrong request never takes the last right answer away.
import type { Engine, Run } from './engine.js';
import { equal, get, isObject, put } from './fields.js';
import type { LinkState } from './link.js';
import { Slicer } from './slicer.js';
import { isSnapshot } from './snapshot-file.js';
import type { Advices, DevicePreset, Fit, Json, ModelPreset, Problem, Report, Request, Summary, Timeline } from './types.js';
import type { Unit } from './units.js';

export type Topic = 'report' | 'problems' | 'fit' | 'advice' | 'cursor' | 'unit' | 'notes' | 'engine' | 'filter' | 'snapshot';

/** Of a config.json, by either name. */
export function positionsOf(shape: Record<string, Json>): number | undefined {
  const positions = shape.n_positions ?? shape.max_position_embeddings;
  return typeof positions === 'number' ? positions : undefined;
}

/** Quiet time after a change before the long questions start. */
const QUIET_MS = 140;

export class Session {
  engine?: Engine;
  /** As asked, not yet checked. */
  wanted: Request = {};
  run?: Run;
  report?: Summary;
  problems: Problem[] = [];
  /** Of everything but the batch; undefined while unknown. */
  fit?: Fit;
  /** The last known one, for showing dimmed while the next is computed. */
  lastFit?: Fit;
  advice?: Advices;
  /** Row of the timeline that is looked at; undefined: the peak's, or where the run fails. */
  cursor?: number;
  playing = false;
  unit: Unit = 'GiB';
  notes: string[] = [];
  /** Categories that the ledger shows; empty: all. */
  filter: readonly string[] = [];
  /** Whether somebody looks at advice: it is the longest question. */
  wantsAdvice = false;
  /** A memory snapshot of the reader's own run. */
  snapshot?: File;
  /** Takes a file that is no snapshot. */
  onConfigFile?: (file: File) => void;
  /** Called after every accepted request; `decision` marks what Back should undo. */
  onReport?: (byUser: boolean, decision: boolean) => void;

  #listeners = new Map<Topic, Set<() => void>>();
  #frame = 0;
  #quiet: ReturnType<typeof setTimeout> | undefined;
  #fitWork = new Slicer();
  #adviceWork = new Slicer();
  #fitKey = '';
  #adviceKey = '';
  #timeline?: Timeline;
  #whole?: Report;
  /** Number of the event that a link points at, until there is a timeline to find it in. */
  #event?: number;
  #undo: { request: Request; title: string }[] = [];
  /** As the page asked, before anybody changed something. */
  #first?: Request;
  #byUser = false;
  #decision = false;

  subscribe(topics: readonly Topic[], listener: () => void): () => void {
    for (const topic of topics) {
      let set = this.#listeners.get(topic);
      if (!set) this.#listeners.set(topic, (set = new Set()));
      set.add(listener);
    }
    return () => topics.forEach((topic) => this.#listeners.get(topic)?.delete(listener));
  }

  emit(...topics: Topic[]): void {
    const called = new Set<() => void>();
    for (const topic of topics) this.#listeners.get(topic)?.forEach((listener) => called.add(listener));
    called.forEach((listener) => listener());
  }

  /** The request as the core wrote it out, or as it was asked before there is an answer. */
  get value(): Request {
    return this.run?.request ?? this.wanted;
  }

  start(engine: Engine): void {
    this.engine = engine;
    this.emit('engine');
    this.compute();
  }

  stop(): void {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    clearTimeout(this.#quiet);
    this.#fitWork.cancel();
    this.#adviceWork.cancel();
    this.run?.close();
    this.run = undefined;
    this.#timeline = undefined;
    this.#fitKey = this.#adviceKey = '';
  }

  /** Replaces the whole request (attributes, link, property). */
  ask(request: Request): void {
    this.#first = undefined;
    if (equal(request, this.wanted) && this.report) return;
    this.wanted = request;
    this.#schedule(false, false);
  }

  /** A control's change of one value. */
  set(path: readonly string[], value: Json): void {
    this.#first ??= this.value;
    this.wanted = put(this.#opened(path), path, value);
    this.#schedule(true, path[0] === 'model' || path[0] === 'device');
  }

  /** Several at once, undone together. */
  apply(changes: { path: readonly string[]; value: Json }[], title: string): void {
    this.#first ??= this.value;
    this.#undo.push({ request: this.value, title });
    for (const { path, value } of changes) this.wanted = put(this.#opened(path), path, value);
    this.#schedule(true, true);
  }

  replace(request: Request, title: string): void {
    this.#first ??= this.value;
    this.#undo.push({ request: this.value, title });
    this.wanted = request;
    this.#schedule(true, true);
  }

  /** What undo() would take back. */
  get undoable(): string | undefined {
    return this.#undo.at(-1)?.title;
  }

  undo(): void {
    const last = this.#undo.pop();
    if (!last) return;
    this.wanted = last.request;
    this.#schedule(true, true);
  }

  /** Somebody changed something; reset() takes all of it back. */
  get touched(): boolean {
    return this.#first !== undefined;
  }

  reset(): void {
    if (!this.#first) return;
    this.wanted = this.#first;
    this.#first = undefined;
    this.#undo = [];
    this.#schedule(true, true);
  }

  /** Starts from what was accepted, so that a wrong value in one field does not travel with a change of another. */
  #opened(path: readonly string[]): Request {
    let base = this.wanted;
    for (const problem of this.problems) {
      const key = problem.key.split('.')[0] ?? '';
      if (key !== path[0] && this.run && key in this.run.request) base = { ...base, [key]: this.run.request[key] ?? null };
    }
    return path.length < 2 ? base : this.#filled(base, true);
  }

  /** Sections that name a preset and change some of it, written out. With `all`, every preset. */
  #filled(request: Request, all = false): Request {
    const { model, device } = request;
    const filled = { ...request };
    const modelId = typeof model === 'string' ? (all ? model : undefined) : isObject(model) && !('model_type' in model) ? (model.preset ?? 'gpt2-from-scratch') : undefined;
    const preset = typeof modelId === 'string' ? this.preset(modelId) : undefined;
    if (preset) {
      const { preset: _, ...own } = isObject(model) ? model : {};
      filled.model = { ...preset.config, ...own };
    }
    const cardId = typeof device === 'string' ? (all ? device : undefined) : isObject(device) ? device.preset : undefined;
    const card = typeof cardId === 'string' ? this.#card(cardId) : undefined;
    if (card) {
      const { preset: _, ...own } = isObject(device) ? device : {};
      const { name, total_mib, free_mib, compute_capability, sm_count } = card;
      filled.device = { name, total_mib, free_mib, compute_capability, sm_count, ...own };
    }
    return filled;
  }

  #card(id: string): DevicePreset | undefined {
    return this.engine?.devices.find((card) => card.id === id || card.alias === id);
  }

  preset(id: string): ModelPreset | undefined {
    return this.engine?.models.find((model) => model.id === id);
  }

  /** The model's dimensions, whether it is a preset or an object. */
  get shape(): Record<string, Json> {
    const model = this.value.model;
    if (typeof model === 'string') return this.preset(model)?.config ?? {};
    return isObject(model) ? model : {};
  }

  /** The longest sequence that the model takes, if it says so. */
  get positions(): number | undefined {
    return positionsOf(this.shape);
  }

  /** MiB the allocator may have. */
  get free(): number {
    const device = this.value.device;
    const mib = typeof device === 'string' ? this.#card(device)?.free_mib : get(this.value, ['device', 'free_mib']);
    return (typeof mib === 'number' ? mib : 0) * 1024 * 1024;
  }

  get deviceName(): string {
    const device = this.value.device;
    if (typeof device === 'string') return this.#card(device)?.name ?? device;
    const name = get(this.value, ['device', 'name']);
    return typeof name === 'string' ? name : 'custom card';
  }

  /** The answer with its ledger; asked for when somebody reads it. */
  get whole(): Report | undefined {
    if (!this.#whole && this.run) this.#whole = this.run.report();
    return this.#whole;
  }

  /** The step event by event; computed when somebody looks. */
  get timeline(): Timeline | undefined {
    if (!this.#timeline && this.run && this.report?.accuracy.basis === 'replay') this.#timeline = this.run.timeline(-1);
    return this.#timeline;
  }

  /** Row that cursor, ledger and segments are at. */
  get row(): number {
    const timeline = this.timeline;
    if (!timeline) return 0;
    return Math.max(0, Math.min(this.cursor ?? (timeline.oom ? timeline.count - 1 : timeline.peak), timeline.count - 1));
  }

  look(row: number | undefined): void {
    if (row === this.cursor) return;
    this.cursor = row;
    this.emit('cursor');
  }

  /** The event looked at, counted from the start of the run; undefined at the peak. */
  get event(): number | undefined {
    return this.cursor === undefined ? undefined : this.timeline?.row(this.row).event;
  }

  /** Looks at an event by its number, now or when there is an answer. */
  lookAtEvent(event: number | undefined): void {
    this.#event = event;
    if (this.run && this.#frame === 0) this.#toEvent();
  }

  #toEvent(): void {
    const event = this.#event;
    this.#event = undefined;
    if (event !== undefined && this.timeline) this.look(this.timeline.rowOf(event));
  }

  /** The state, as links have it. */
  get state(): LinkState {
    return { request: this.value, unit: this.unit, event: this.event };
  }

  /** A file that somebody dropped or chose: a snapshot, or else a config. */
  async offer(file: File): Promise<void> {
    if (this.onConfigFile && !(await isSnapshot(file))) {
      this.onConfigFile(file);
      return;
    }
    this.openSnapshot(file);
  }

  openSnapshot(file: File): void {
    this.snapshot = file;
    this.emit('snapshot');
  }

  setFilter(categories: readonly string[]): void {
    this.filter = categories;
    this.emit('filter');
  }

  setUnit(unit: Unit): void {
    this.unit = unit;
    this.emit('unit');
  }

  note(...notes: string[]): void {
    this.notes = notes;
    this.emit('notes');
  }

  #schedule(byUser: boolean, decision: boolean): void {
    this.#byUser ||= byUser;
    this.#decision ||= decision;
    if (!this.engine || this.#frame !== 0) return;
    this.#frame = requestAnimationFrame(() => {
      this.#frame = 0;
      this.compute();
    });
  }

  /** Asks the core now. */
  compute(): void {
    if (!this.engine) return;
    const opened = this.engine.open(this.#filled(this.wanted));
    const byUser = this.#byUser;
    const decision = this.#decision;
    this.#byUser = this.#decision = false;
    if (Array.isArray(opened)) {
      this.problems = opened;
      this.emit('problems');
      return;
    }
    this.#fitWork.cancel();
    this.#adviceWork.cancel();
    this.run?.close();
    this.run = opened;
    this.#timeline = undefined;
    this.cursor = undefined;
    this.#whole = undefined;
    this.report = opened.summary();
    const problems = this.problems.length > 0;
    this.problems = [];
    const key = JSON.stringify({ ...opened.request, batch: 0 });
    if (key !== this.#fitKey) {
      if (this.fit) this.lastFit = this.fit;
      this.fit = undefined;
    }
    if (problems) this.emit('problems');
    this.emit('report');
    this.onReport?.(byUser, decision);
    this.#toEvent();
    this.#later(key, byUser && !decision);
  }

  /** The long questions, once it is quiet. */
  #later(fitKey: string, wait: boolean): void {
    clearTimeout(this.#quiet);
    const begin = () => {
      const run = this.run;
      if (!run) return;
      if (this.fit && this.#fitKey === fitKey) {
        this.#adviseSoon(run);
        return;
      }
      const job = run.fit();
      void this.#fitWork.run(
        () => job.step(),
        (done) => {
          if (!done || run !== this.run) return;
          this.fit = this.lastFit = job.result();
          this.#fitKey = fitKey;
          this.emit('fit');
          this.#adviseSoon(run);
        },
      );
    };
    if (wait) this.#quiet = setTimeout(begin, QUIET_MS);
    else begin();
  }

  /** Advice is computed where it is shown, and wherever the run does not fit. */
  #adviseSoon(run: Run): void {
    if (!this.wantsAdvice && this.fits !== false) return;
    const key = JSON.stringify(run.request);
    if (key === this.#adviceKey && this.advice?.done) return;
    this.#adviceKey = key;
    this.advice = undefined;
    this.emit('advice');
    const job = run.advise();
    let shown = -1;
    void this.#adviceWork.run(
      () => job.step(),
      (done) => {
        if (run !== this.run) return;
        const result = job.result();
        if (!done && result.advice.length === shown) return;
        shown = result.advice.length;
        this.advice = { ...result, done };
        this.emit('advice');
      },
    );
  }

  /** Whether the batch asked for goes on for ever; undefined while unknown. */
  get fits(): boolean | undefined {
    if (!this.report) return undefined;
    if (this.report.verdict === 'oom') return false;
    const batch = this.value.batch;
    return this.fit && typeof batch === 'number' ? batch <= this.fit.largest : undefined;
  }

  /** Fits, but with so little to spare that anything else on the card would break it. */
  get tight(): boolean {
    return this.report !== undefined && this.fits !== false && this.free - this.report.peak.reserved < 0.03 * this.free;
  }
}
