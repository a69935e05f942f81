// Bytes or an address to a compiled module: in a page, a worker and Node, on file://, with any MIME type.
import { CoreError } from './errors.js';

/** Bytes of the module (bare or packed), their base64 text, or an address. */
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

type FromBase64 = { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> };

const fromBase64 = (text: string): Uint8Array<ArrayBuffer> => {
  const native = (Uint8Array as unknown as FromBase64).fromBase64; // since 2025, and ten times as fast
  if (native) return native.call(Uint8Array, text);
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; ++i) bytes[i] = raw.charCodeAt(i);
  return bytes;
};

/** What a packed module exports: estimator/wasm/unpack.cpp and join.cpp. */
interface Unpacker {
  memory: WebAssembly.Memory;
  space(): number;
  unpack(packed: number, out: number, size: number): void;
  join(parts: number, out: number): void;
}
const PAGE = 65536;
/** Of an .lzma file: properties, dictionary, then the size as 8 bytes. */
const HEADER = 13;

/** In a script the module comes packed: as a section of a small one that unpacks it. Others are what they are. */
const unpacked = async (outer: WebAssembly.Module): Promise<WebAssembly.Module> => {
  const [section] = WebAssembly.Module.customSections(outer, 'packed');
  if (!section) return outer;
  const { memory, space, unpack, join } = (await WebAssembly.instantiate(outer)).exports as unknown as Unpacker;
  const grow = (bytes: number) => memory.grow(Math.max(0, Math.ceil((bytes - memory.buffer.byteLength) / PAGE)));
  const size = new DataView(section).getUint32(5, true);
  const packed = new Uint8Array(section, HEADER);
  const from = space() >>> 0;
  const parts = from + packed.length;
  const to = parts + size;
  grow(to);
  new Uint8Array(memory.buffer, from).set(packed);
  unpack(from, parts, size);
  const length = new DataView(memory.buffer).getUint32(parts, true);
  grow(to + length);
  join(parts, to);
  const bytes = new Uint8Array(memory.buffer, to, length);
  return compiled(bytes) ?? WebAssembly.compile(bytes);
};

/** At once, which saves a turn of the event loop; undefined where the browser wants a module of this size compiled off its main thread. */
const compiled = (bytes: BufferSource): WebAssembly.Module | undefined => {
  try {
    return new WebAssembly.Module(bytes);
  } catch {
    return undefined;
  }
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
    else if (typeof source === 'string') bytes = source.startsWith('AGFzb') ? fromBase64(source) : await read(new URL(source, globalThis.document?.baseURI));
    else bytes = source as BufferSource;
  } catch (error) {
    throw new CoreError('fetch', error);
  }
  try {
    return await unpacked(compiled(bytes) ?? (await WebAssembly.compile(bytes)));
  } catch (error) {
    throw new CoreError((await allowed()) ? 'broken' : 'csp', error);
  }
};
