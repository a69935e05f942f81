// A WebAssembly module, packed for a script to carry: taken apart into streams (estimator/wasm/join.cpp puts it together again),
// these packed by xz (unpack.cpp), and the whole a section of the small module that does both.
import { execFileSync } from 'node:child_process';

/** The streams, in join.cpp's order. */
const STREAMS = ['ops', 'locals', 'offsets', 'ints', 'rest'];
const SAME_LOCAL = 0xe0;
const ALIGNED = 0xfe;
/** log2 of the bytes that an access touches, from 0x28 (i32.load) on. */
const NATURAL = [2, 3, 2, 3, 0, 0, 1, 1, 0, 0, 1, 1, 2, 2, 2, 3, 2, 3, 0, 1, 0, 1, 2];
/** How many numbers follow these operators; those from 0x45 to 0xC4 have none. */
const NUMBERS = { 0x00: 0, 0x01: 0, 0x02: 1, 0x03: 1, 0x04: 1, 0x05: 0, 0x0b: 0, 0x0c: 1, 0x0d: 1, 0x0f: 0, 0x10: 1, 0x11: 2, 0x1a: 0, 0x1b: 0, 0x23: 1, 0x24: 1, 0x3f: 1, 0x40: 1, 0x42: 1 };
const FC_NUMBERS = { 8: 2, 9: 1, 10: 2, 11: 1 };

/** @param {Uint8Array} wasm @returns {Buffer} */
export function split(wasm) {
  const streams = Object.fromEntries(STREAMS.map((name) => [name, []]));
  let at = 0;
  const copy = (stream, count) => {
    for (; count > 0; --count) stream.push(wasm[at++]);
  };
  const number = (stream) => {
    let value = 0;
    for (let shift = 0, byte = 0x80; byte >= 0x80; shift += 7) {
      byte = wasm[at++];
      value += (byte & 0x7f) * 2 ** shift;
      stream.push(byte);
    }
    return value;
  };
  const { ops, locals, offsets, ints, rest } = streams;

  const body = () => {
    const end = number([]) + at;
    for (let groups = number(ops); groups > 0; --groups) {
      number(ops);
      copy(ops, 1);
    }
    let last = '';
    while (at < end) {
      const op = wasm[at++];
      if (op >= 0x20 && op <= 0x22) {
        const index = [];
        number(index);
        const same = index.join() === last;
        ops.push(same ? SAME_LOCAL + op - 0x20 : op);
        if (!same) locals.push(...index);
        last = index.join();
      } else if (op >= 0x28 && op <= 0x3e) {
        if (wasm[at] === NATURAL[op - 0x28]) ops.push(op);
        else ops.push(ALIGNED, op, wasm[at]);
        ++at;
        number(offsets);
      } else {
        ops.push(op);
        if (op === 0x41) number(ints);
        else if (op === 0x43) copy(ops, 4);
        else if (op === 0x44) copy(ops, 8);
        else {
          let count = op >= 0x45 && op <= 0xc4 ? 0 : NUMBERS[op];
          if (op === 0x0e) count = number(ops) + 1;
          if (op === 0xfc) count = FC_NUMBERS[number(ops)] ?? 0;
          if (count === undefined) throw new Error(`pack: no rule for the operator 0x${op.toString(16)} at byte ${at - 1}`);
          for (; count > 0; --count) number(ops);
        }
      }
    }
  };

  copy(rest, 8);
  while (at < wasm.length) {
    const id = wasm[at];
    copy(rest, 1);
    const size = number(rest);
    if (id !== 10) copy(rest, size);
    else for (let bodies = number(rest); bodies > 0; --bodies) body();
  }
  const parts = STREAMS.map((name) => streams[name]);
  return Buffer.concat([Buffer.from(Uint32Array.of(wasm.length, ...parts.map((part) => part.length)).buffer), ...parts.map((part) => Buffer.from(part))]);
}

/** `unpacker` with `wasm` in its section "packed": the .lzma file of the streams. Throws where unpacking does not give `wasm` again. */
export async function pack(wasm, unpacker) {
  const parts = split(wasm);
  const lzma = execFileSync('xz', ['--format=lzma', '--lzma1=preset=9e,lc=1,lp=0,pb=0,nice=273', '--stdout'], { input: parts, maxBuffer: 1 << 26 });
  lzma.writeBigUInt64LE(BigInt(parts.length), 5); // xz, writing to a pipe, says that it does not know
  const number = (n) => (n < 0x80 ? [n] : [(n & 0x7f) | 0x80, ...number(n >>> 7)]);
  const name = Buffer.from('\x06packed');
  const packed = Buffer.concat([unpacker, Buffer.from([0, ...number(name.length + lzma.length)]), name, lzma]);
  if (!Buffer.from(await unpack(packed)).equals(wasm)) throw new Error('pack: what comes out is not what went in');
  return packed;
}

/** As web/src/core/compile.ts does it; throws, or gives something else, where `packed` is damaged. @returns {Promise<Uint8Array>} */
export async function unpack(packed) {
  const outer = await WebAssembly.compile(packed);
  const [section] = WebAssembly.Module.customSections(outer, 'packed');
  const { memory, space, unpack, join } = (await WebAssembly.instantiate(outer)).exports;
  const from = space() >>> 0;
  memory.grow(64);
  new Uint8Array(memory.buffer, from).set(new Uint8Array(section, 13));
  const parts = from + section.byteLength;
  const size = new DataView(section).getUint32(5, true);
  unpack(from, parts, size);
  const length = new DataView(memory.buffer, 0).getUint32(parts, true);
  join(parts, parts + size);
  return new Uint8Array(memory.buffer, parts + size, length);
}
