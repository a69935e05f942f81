// Bytes or an address to a compiled module: in a page, a worker and Node, on file://, with any MIME type.
import { CoreError } from './errors.js';

/** Bytes of the module (as they are or gzipped), their base64 text, or an address. */
export type Source = ArrayBuffer | Uint8Array | URL | string | WebAssembly.Module;

/** The shortest module there is. Where not even that compiles, the page's policy forbids it, however the browser words it. */
const empty = Uint8Array.of(0, 0x61, 0x73, 0x6d, 1, 0, 0, 0);

const allowed = async (): Promise<boolean> => {
  try {
    await WebAssembly.compile(empty);
    return true;
  } catch {
    return false;
  }
};

const fromBase64 = (text: string): Uint8Array<ArrayBuffer> => {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; ++i) bytes[i] = raw.charCodeAt(i);
  return bytes;
};

/** A module inside a script is gzipped first: base64 of the bare bytes would be a third larger once the script is compressed. */
const unpacked = async (bytes: BufferSource): Promise<BufferSource> => {
  const [first, second] = ArrayBuffer.isView(bytes) ? new Uint8Array(bytes.buffer, bytes.byteOffset, 2) : new Uint8Array(bytes, 0, 2);
  if (first !== 0x1f || second !== 0x8b) return bytes;
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'))).arrayBuffer();
};

const read = async (url: URL): Promise<ArrayBuffer | Uint8Array<ArrayBuffer>> => {
  if (url.protocol === 'file:' && typeof process === 'object') {
    const specifier = 'node:fs/promises'; // in a variable, so that bundlers leave it alone
    const { readFile } = (await import(/* @vite-ignore */ specifier)) as typeof import('node:fs/promises');
    return new Uint8Array(await readFile(url));
  }
  const response = await fetch(url);
  if (!response.ok) throw new Error(`HTTP ${response.status} for ${url.href}`);
  return response.arrayBuffer(); // not streaming: 60 KB, and any MIME type will do
};

export const compile = async (source: Source): Promise<WebAssembly.Module> => {
  if (typeof WebAssembly !== 'object' || typeof WebAssembly.instantiate !== 'function') throw new CoreError('no-webassembly');
  if (source instanceof WebAssembly.Module) return source;
  let bytes: BufferSource;
  try {
    // A data address or plain base64 needs no fetch, which a policy may forbid.
    if (source instanceof URL) bytes = await read(source);
    else if (typeof source === 'string') bytes = /^(AGFzb|H4sI)/.test(source) ? fromBase64(source) : await read(new URL(source, globalThis.document?.baseURI));
    else bytes = source as BufferSource;
  } catch (error) {
    throw new CoreError('fetch', error);
  }
  try {
    return await WebAssembly.compile(await unpacked(bytes));
  } catch (error) {
    throw new CoreError((await allowed()) ? 'broken' : 'csp', error);
  }
};
