/** A long question, one replay (some milliseconds) a step, so that nobody blocks. */
export interface Job<Result> {
  /** True while there is more to do. */
  step(): boolean;
  /** What is known so far; the whole once step() has returned false. */
  result(): Result;
}

export interface SliceOptions {
  /** Milliseconds of work before the page gets its turn. */
  budget?: number;
  signal?: AbortSignal;
  /** After each slice. */
  progress?: () => void;
}

/** Lets whatever waits (input, painting) go first. */
const pause = (): Promise<void> =>
  new Promise((resolve) => {
    if (typeof MessageChannel === 'undefined') {
      setTimeout(resolve, 0);
      return;
    }
    // Not a timer: those are held back to 4 ms and, in hidden tabs, to a second.
    const channel = new MessageChannel();
    channel.port1.onmessage = () => {
      channel.port1.close();
      resolve();
    };
    channel.port2.postMessage(0);
  });

/** Runs a job in slices. Rejects with the signal's reason when it is cancelled. */
export const runJob = async <Result>(job: Job<Result>, options: SliceOptions = {}): Promise<Result> => {
  const { budget = 8, signal, progress } = options;
  for (;;) {
    signal?.throwIfAborted();
    const end = performance.now() + budget;
    let more = true;
    while (more && performance.now() < end) more = job.step();
    progress?.();
    if (!more) return job.result();
    await pause();
  }
};
