import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bytes, count, fixed, parameters, parseWhole, tick } from '../src/data/units.js';

const GIB = 1024 ** 3;
const plain = (text: string) => text.replace(/\u202f/g, ' ');

test('sizes keep to the family of the unit and never read as nothing', () => {
  assert.equal(plain(bytes(8, 'GiB', 'en')), '8 B');
  assert.equal(plain(bytes(1536, 'GiB', 'en')), '1.50 KiB');
  assert.equal(plain(bytes(16.5 * GIB, 'GiB', 'en')), '16.50 GiB');
  assert.equal(plain(bytes(16.5 * GIB, 'MiB', 'en')), '16,896 MiB');
  assert.equal(plain(bytes(1e9, 'GB', 'en')), '1.00 GB');
  assert.equal(plain(bytes(999_999, 'GB', 'en')), '1,000 kB');
  assert.equal(plain(bytes(0, 'GiB', 'en')), '0 B');
  assert.equal(plain(bytes(-3 * GIB, 'GiB', 'en')), '-3.00 GiB');
});

test('numbers written here are those that Intl writes', () => {
  const integers = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });
  const hundredths = new Intl.NumberFormat('en-US', { minimumFractionDigits: 2, maximumFractionDigits: 2 });
  let seed = 1;
  for (let i = 0; i < 2000; ++i) {
    seed = (seed * 48271) % 2147483647;
    const value = Math.PI * (seed - 1e9) * 10 ** ((i % 12) - 6); // never half of a digit, where Intl rounds the decimal, toFixed the binary number
    assert.equal(count(value, 'en-US'), integers.format(value), String(value));
    assert.equal(plain(fixed(value * GIB, 'GiB', 2, 'en-US')), `${hundredths.format(value)} GiB`, String(value));
  }
  assert.deepEqual([tick(2), tick(2.5), tick(1234.56)].map((text) => text.replace(',', '')), ['2', '2.5', '1234.6']);
});

test('headlines keep the unit', () => {
  assert.equal(plain(fixed(17_574_133_760, 'MiB', undefined, 'en')), '16,760 MiB');
  assert.equal(plain(fixed(17_574_133_760, 'GiB', undefined, 'de')), '16,37 GiB');
});

test('numbers as people write them', () => {
  for (const text of ['1024', '1,024', '1.024', '1 024', '1_024', '1k', ' 1024 ', '١٠٢٤', '1\u202f024']) assert.equal(parseWhole(text), 1024, text);
  for (const text of ['', '-3', '1.5', '10,24', '1e3', '0x10', 'abc', '1'.repeat(400), '<b>1</b>', '1,0244']) assert.equal(parseWhole(text), undefined, text);
});

test('parameters', () => {
  assert.equal(parameters(124_439_808), '124M');
  assert.equal(parameters(6_738_415_616), '6.74B');
});
