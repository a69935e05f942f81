// What a file is, by its first bytes; and the second script, which reads snapshots, loaded when there is one to read.

const GZIP = [0x1f, 0x8b];
const PICKLE = 0x80;

const head = async (file: Blob): Promise<Uint8Array> => new Uint8Array(await file.slice(0, 2).arrayBuffer());

export async function isPacked(file: Blob): Promise<boolean> {
  const [first, second] = await head(file);
  return first === GZIP[0] && second === GZIP[1];
}

export async function isSnapshot(file: Blob): Promise<boolean> {
  return (await head(file))[0] === PICKLE || isPacked(file);
}

/** Defined by the second script; its parts say with which build of the first they go together. */
export const READER = 'wf-recording';
const NAME = 'what-fits-snapshot.js';
/** Its hash, put in by the build. */
declare const READER_INTEGRITY: string;
/** Only while the script runs is it known which one it is. */
const own = document.currentScript as HTMLScriptElement | null;
const here: string | undefined = import.meta.url ?? own?.src;
let loading: Promise<void> | undefined;

/** A script tag, not a module: it comes from files, from other origins without CORS, and under a policy that allows the first. */
export function loadReader(): Promise<void> {
  if (customElements.get(READER)) return Promise.resolve();
  loading ??= new Promise<void>((resolve, reject) => {
    const missing = (): void => {
      loading = undefined;
      reject(new Error(`Snapshots are read by a second script, ${NAME}, which is not beside what-fits.js here. It comes with it; put it there, or use the full page`));
    };
    if (!here) return missing();
    const script = document.createElement('script');
    if (own?.integrity) {
      // Who pins the first pins both.
      script.integrity = READER_INTEGRITY;
      script.crossOrigin = own.crossOrigin;
    }
    script.src = new URL(NAME, here).href;
    script.onload = () => (customElements.get(READER) ? resolve() : missing());
    script.onerror = () => {
      script.remove();
      missing();
    };
    document.head.append(script);
  });
  return loading;
}
