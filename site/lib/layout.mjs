// The frame of every page: head, navigation, foot. No inline script or style, so that a strict policy can be set.
import { escape, html } from './format.mjs';

export const pages = [
  ['index.html', 'The post'],
  ['general.html', 'The general account'],
  ['calculator.html', 'Calculator'],
  ['accuracy.html', 'Accuracy'],
  ['method.html', 'Method'],
  ['embedding.html', 'Embed it'],
];

export function layout({ file, title, description, body, wide = false, element = true, assets }) {
  const nav = pages.map(([href, name]) =>
    `<li><a href="${href}"${href === file ? ' aria-current="page"' : ''}>${name}</a></li>`).join('');
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escape(title)}</title>
<meta name="description" content="${escape(description)}">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="${assets['icon.svg']}">
<link rel="stylesheet" href="${assets['site.css']}">
<script src="${assets['site.js']}" defer></script>
${element && `<script src="${assets['what-fits.js']}" defer></script>`}
</head>
<body class="${file.replace('.html', '')}${wide ? ' wide-page' : ''}">
<a class="skip" href="#content">Skip to the text</a>
<header class="site">
<a class="brand" href="index.html"><svg viewBox="0 0 32 24" width="32" height="24" aria-hidden="true"><path d="M1 23 7 17 10 19 19 3 23 12 26 15 31 23Z"/></svg>whatfits</a>
<nav aria-label="Pages"><ul>${nav}</ul></nav>
<button type="button" class="theme" hidden>Theme: auto</button>
</header>
<main id="content" tabindex="-1" class="${wide ? 'wide' : 'post'}">
${body}
</main>
<footer class="site">
<p>Everything on these pages is computed in your browser. Nothing is uploaded, nothing is fetched from anywhere else. 1 MiB is 2<sup>20</sup> bytes, 1 GiB is 2<sup>30</sup>; GB means 10<sup>9</sup>.</p>
</footer>
</body>
</html>
`;
}
