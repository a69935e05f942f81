// The custom-elements manifest, from the comment above the element's class: the one place where its language is written down.
import { readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));

export function manifest() {
  const source = readFileSync(resolve(here, 'src/what-fits.ts'), 'utf8');
  const comment = /\/\*\*((?:(?!\*\/)[\s\S])*?@element what-fits[\s\S]*?)\*\//.exec(source)?.[1];
  if (!comment) throw new Error('manifest: the comment of the element is gone');
  const lines = comment.split('\n').map((line) => line.replace(/^\s*\*\s?/, '').trim()).filter(Boolean);
  const tags = (name) =>
    lines.filter((line) => line.startsWith(`@${name} `)).map((line) => {
      const [, type, key, description] = /^@\S+\s+(?:\{([^}]+)\}\s+)?(?:(\S+)\s+)?-\s+(.*)$/.exec(line) ?? [];
      return { type, key, description };
    });
  const description = lines.filter((line) => !line.startsWith('@')).join(' ');
  return {
    schemaVersion: '2.1.0',
    modules: [
      {
        kind: 'javascript-module',
        path: 'dist/what-fits.mjs',
        declarations: [
          {
            kind: 'class',
            customElement: true,
            name: 'WhatFits',
            tagName: 'what-fits',
            description,
            attributes: tags('attr').map(({ type, key, description: text }) => ({ name: key, type: { text: type }, description: text })),
            members: [
              { kind: 'field', name: 'value', type: { text: 'Request' }, description: 'the request, every key written out; setting it asks anew' },
              { kind: 'field', name: 'request', type: { text: 'Request' }, description: 'the same as value' },
              { kind: 'field', name: 'report', type: { text: 'Report | undefined' }, readonly: true, description: 'the last answer' },
              { kind: 'field', name: 'fragment', type: { text: 'string' }, readonly: true, description: 'the state as a link’s fragment' },
            ],
            events: tags('fires').map(({ key, description: text }) => ({ name: key, type: { text: key.startsWith('wf-') ? 'CustomEvent' : 'Event' }, description: text })),
            slots: tags('slot').map(({ description: text }) => ({ name: '', description: text })),
            cssParts: tags('csspart').map(({ key, description: text }) => ({ name: key, description: text })),
            cssProperties: tags('cssprop').map(({ key, description: text }) => ({ name: key, description: text })),
          },
        ],
        exports: [{ kind: 'custom-element-definition', name: 'what-fits', declaration: { name: 'WhatFits', module: 'dist/what-fits.mjs' } }],
      },
    ],
  };
}
