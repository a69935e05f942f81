// Bytes in words. One unit is chosen for the whole element; small sizes step down within the same family, so that a mask of
// 8 bytes never reads "0.00 GiB".

export type Unit = 'GiB' | 'MiB' | 'GB';
export const UNITS: readonly Unit[] = ['GiB', 'MiB', 'GB'];

const KI = 1024;
const BINARY = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
const DECIMAL = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'];

/** Digits follow the reader's language. `GiB` is no unit that Intl knows, so the suffix is ours. */
const formatters = new Map<string, Intl.NumberFormat>();
/** Languages whose numbers are written here as Intl would: the first formatter of a page costs tens of milliseconds. */
const PLAIN = /^en(-(US|GB|CA|AU|NZ|IE))?$/;
function digits(value: number, decimals: number, locale = globalThis.navigator?.language): string {
  if (PLAIN.test(locale ?? '') && Math.abs(value) < 1e9) {
    const [whole = '', rest] = value.toFixed(decimals).split('.');
    const grouped = whole.replace(/\B(?=(\d{3})+$)/g, ',');
    return rest === undefined ? grouped : `${grouped}.${rest}`;
  }
  const key = `${locale ?? ''}/${decimals}`;
  let format = formatters.get(key);
  if (!format) {
    format = new Intl.NumberFormat(locale, { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
    formatters.set(key, format);
  }
  return format.format(value);
}

export function count(value: number, locale?: string): string {
  return digits(value, 0, locale);
}

/** Bytes of one of the unit. */
export function size(unit: Unit): number {
  return unit === 'GB' ? 1e9 : unit === 'GiB' ? KI ** 3 : KI ** 2;
}

/** Always in the unit: for headlines and axes, where numbers stand side by side. */
export function fixed(bytes: number, unit: Unit, decimals = unit === 'MiB' ? 0 : 2, locale?: string): string {
  return `${digits(bytes / size(unit), decimals, locale)}\u202f${unit}`;
}

/** The number alone, without its unit. */
export function bare(bytes: number, unit: Unit, decimals = unit === 'MiB' ? 0 : 2, locale?: string): string {
  return digits(bytes / size(unit), decimals, locale);
}

/** With one digit after the point where it is not zero: an axis. */
export function tick(value: number, locale?: string): string {
  return digits(value, Number.isInteger(Math.round(value * 10) / 10) ? 0 : 1, locale);
}

/** In the unit, or a smaller one of its family when it would round to nothing. */
export function bytes(value: number, unit: Unit, locale?: string): string {
  const magnitude = Math.abs(value);
  const family = unit === 'GB' ? DECIMAL : BINARY;
  const base = unit === 'GB' ? 1000 : KI;
  const top = unit === 'MiB' ? 2 : 3;
  let power = 0;
  while (power < top && magnitude >= base ** (power + 1)) power += 1;
  const scaled = value / base ** power;
  const decimals = power === 0 ? 0 : Math.abs(scaled) < 100 && power === 3 ? 2 : Math.abs(scaled) < 10 ? 2 : Math.abs(scaled) < 100 ? 1 : 0;
  return `${digits(scaled, decimals, locale)}\u202f${family[power]}`;
}

/** "124.4M" */
export function parameters(value: number): string {
  if (value >= 1e9) return `${digits(value / 1e9, value >= 1e10 ? 1 : 2)}B`;
  if (value >= 1e6) return `${digits(value / 1e6, value >= 1e8 ? 0 : 1)}M`;
  return value >= 1e3 ? `${digits(value / 1e3, 0)}k` : count(value);
}

/**
 * A whole number as people write it: "1024", "1,024", "1.024", "1 024", "8k". Nothing for anything else, and for more than
 * 15 digits, which no double holds.
 */
export function parseWhole(text: string): number | undefined {
  let plain = text.trim().normalize('NFKC');
  plain = plain.replace(/[\u0660-\u0669]/g, (d) => String(d.charCodeAt(0) - 0x660)).replace(/[\u06f0-\u06f9]/g, (d) => String(d.charCodeAt(0) - 0x6f0));
  if (plain.length > 24) return undefined;
  const suffix = /^(\d{1,6})\s?[kK]$/.exec(plain);
  if (suffix) return Number(suffix[1]) * 1024;
  if (/^\d{1,3}([.,'’_ \u066c]\d{3})+$/.test(plain)) plain = plain.replace(/\D/g, '');
  return /^\d{1,15}$/.test(plain) ? Number(plain) : undefined;
}
