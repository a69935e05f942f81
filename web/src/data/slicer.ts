// Long work in short tasks: a slice, then the page gets its turn. One job of a kind at a time; a new one ends the old.

/** Milliseconds a slice may take. One replay more may run over it, never a whole job. */
export const SLICE_MS = 8;

const channel = typeof MessageChannel === 'undefined' ? undefined : new MessageChannel();
const waiting: (() => void)[] = [];
if (channel) channel.port1.onmessage = () => waiting.shift()?.();

/** A task of its own, without the 4 ms that nested timers cost. */
export function nextTask(): Promise<void> {
  return new Promise((resolve) => {
    if (!channel) {
      setTimeout(resolve, 0);
      return;
    }
    waiting.push(resolve);
    channel.port2.postMessage(0);
  });
}

export class Slicer {
  #generation = 0;
  #busy = false;

  get busy(): boolean {
    return this.#busy;
  }

  cancel(): void {
    this.#generation += 1;
    this.#busy = false;
  }

  /**
   * Runs `step` until it returns false or another run begins. `shown` is called after each slice, and with true at the end.
   * Resolves to whether it came to its end.
   */
  async run(step: () => boolean, shown: (done: boolean) => void): Promise<boolean> {
    const mine = ++this.#generation;
    this.#busy = true;
    try {
      for (;;) {
        await nextTask();
        if (mine !== this.#generation) return false;
        const until = performance.now() + SLICE_MS;
        let more = true;
        while (more && performance.now() < until) more = step();
        if (!more) this.#busy = false;
        shown(!more);
        if (!more) return true;
      }
    } finally {
      if (mine === this.#generation) this.#busy = false;
    }
  }
}
