// The page inside an iframe: takes ?show=…&controls=…&theme=…, tells its height to whoever holds it, keeps the link to the full page.
'use strict';
(() => {
  const element = document.querySelector('what-fits');
  const query = new URLSearchParams(location.search);
  const names = /^[a-z,-]{1,200}$/;
  for (const key of ['show', 'controls']) {
    const value = query.get(key);
    if (value !== null && names.test(value)) element.setAttribute(key, value);
  }
  if (['light', 'dark'].includes(query.get('theme'))) document.documentElement.dataset.theme = query.get('theme');
  const link = document.querySelector('.more a');
  const follow = () => { link.href = `calculator.html${location.hash}`; };
  link.addEventListener('pointerdown', follow);
  link.addEventListener('focus', follow);
  if (window.parent === window) return;
  let last = 0;
  const tell = () => {
    const height = Math.ceil(document.querySelector('main').getBoundingClientRect().height);
    if (height === last) return;
    last = height;
    window.parent.postMessage({ type: 'what-fits:height', height }, '*');
  };
  new ResizeObserver(tell).observe(document.querySelector('main'));
  tell();
})();
