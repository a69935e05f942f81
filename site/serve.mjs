// Serves site/dist on this machine: `node site/serve.mjs [--or-next] [PORT]`. No special headers are needed; any static host will do.
import { createServer } from 'node:http';
import { readFile } from 'node:fs/promises';
import { extname, normalize, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

const types = {
  '.html': 'text/html; charset=utf-8', '.js': 'text/javascript; charset=utf-8', '.css': 'text/css; charset=utf-8', '.svg': 'image/svg+xml',
  '.json': 'application/json', '.wasm': 'application/wasm', '.png': 'image/png',
};

/** A static server of `folder` on the loopback address. `headers(path)` may add headers. */
export function serve(folder, port = 0, headers = () => ({})) {
  const root = normalize(folder.endsWith(sep) ? folder : folder + sep);
  const server = createServer(async (request, response) => {
    try {
      const path = decodeURIComponent(new URL(request.url, 'http://localhost').pathname);
      const file = normalize(root + (path.endsWith('/') ? `${path}index.html` : path));
      if (!file.startsWith(root)) throw new Error('outside');
      const body = await readFile(file);
      response.writeHead(200, { 'content-type': types[extname(file)] ?? 'application/octet-stream', 'cache-control': 'no-cache', ...headers(path) });
      response.end(body);
    } catch {
      response.writeHead(404, { 'content-type': 'text/plain; charset=utf-8' });
      response.end('There is no such page.\n');
    }
  });
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', () => resolve({ server, url: `http://127.0.0.1:${server.address().port}` }));
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const words = process.argv.slice(2);
  const orNext = words.includes('--or-next');
  const first = Number(words.find((word) => /^\d+$/.test(word)) ?? 8765);
  for (let port = first; ; ++port) {
    try {
      const { url } = await serve(fileURLToPath(new URL('dist/', import.meta.url)), port);
      console.log(`In the browser: ${url}/ (the post), ${url}/calculator.html (everything on). Ctrl-C ends it.`);
      break;
    } catch (error) {
      if (error.code === 'EADDRINUSE' && orNext && port < first + 20) continue;
      console.error(error.code === 'EADDRINUSE' ? `Port ${port} is taken: try tools/serve ${port + 1}` : error.message);
      process.exitCode = 1;
      break;
    }
  }
}
