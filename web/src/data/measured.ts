// A person's own run beside the prediction: a memory snapshot's way from a file to answers. The file is read here, piece by
// piece, and goes nowhere else.
import { RequestError } from '../core/errors.js';
import type { Comparison, RecordedColumns, RecordedMoment, Recording, RecordingOptions, RecordingSummary } from './types.js';
import { nextTask, SLICE_MS } from './slicer.js';
import { isPacked } from './snapshot-file.js';

/** Of the unpacked file. */
export const MOST_BYTES = 2 ** 31;
const PIECE = 256 * 1024;
export interface Measured {
  readonly name: string;
  readonly summary: RecordingSummary;
  at(event: number): RecordedMoment;
  columns(begin: number, end: number, width: number): RecordedColumns;
  /** Or why the two cannot be laid over each other. */
  compare(request: Record<string, unknown>): Comparison | string;
}

export interface Reading {
  readonly name: string;
  /** Bytes of the file, packed or not. */
  done: number;
  readonly of: number;
}

/** Reads a file to its end. Rejects with a line for the reader, or with the signal's reason. */
export async function readSnapshot(
  file: File,
  open: (options: RecordingOptions) => Promise<Recording>,
  /** Events before it are counted only. */
  firstEvent: number,
  signal: AbortSignal,
  progress: (reading: Reading) => void,
): Promise<Measured> {
  const recording = await open({ firstEvent });
  const reading: Reading = { name: file.name, done: 0, of: file.size };
  const counted = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
    transform: (piece, out) => {
      reading.done += piece.length;
      out.enqueue(piece);
    },
  });
  const packed = await isPacked(file);
  const plain = file.stream().pipeThrough(counted);
  const reader = (packed ? plain.pipeThrough(new DecompressionStream('gzip')) : plain).getReader();
  try {
    let bytes = 0;
    let until = performance.now() + SLICE_MS;
    for (;;) {
      const { done, value } = await reader.read().catch((error: unknown) => {
        throw new Error(packed ? `byte ${reading.done}: the packed file is damaged or cut short` : `cannot be read: ${error instanceof Error ? error.message : ''}`);
      });
      if (done) break;
      bytes += value.length;
      if (bytes > MOST_BYTES) throw new Error(`has more than ${MOST_BYTES / 2 ** 30} GiB unpacked: whatfits in a terminal reads files of any size`);
      for (let at = 0; at < value.length; at += PIECE) {
        if (!recording.feed(value.subarray(at, at + PIECE))) return finish(file.name, recording);
        if (performance.now() < until) continue;
        progress(reading);
        await nextTask();
        signal.throwIfAborted();
        until = performance.now() + SLICE_MS;
      }
    }
    return finish(file.name, recording);
  } finally {
    reader.cancel().catch(() => {});
  }
}

function finish(name: string, recording: Recording): Measured {
  let summary: RecordingSummary;
  try {
    summary = recording.finish();
  } catch (error) {
    throw error instanceof RequestError ? new Error(error.problems.map((problem) => problem.message).join('; ')) : error;
  }
  return {
    name,
    summary,
    at: (event) => recording.at(event),
    columns: (begin, end, width) => recording.columns(begin, end, width),
    compare: (request) => {
      try {
        return recording.compare(request as Parameters<Recording['compare']>[0]);
      } catch (error) {
        if (error instanceof RequestError) return error.problems.map((problem) => `${problem.key === 'snapshot' ? 'It' : problem.key} ${problem.message}`).join('; ');
        throw error;
      }
    },
  };
}
