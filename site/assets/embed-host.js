// For the page that holds embed.html in an iframe: sets the frame's height to what its content needs.
'use strict';
window.addEventListener('message', (event) => {
  if (event.data?.type !== 'what-fits:height' || !(event.data.height > 0)) return;
  for (const frame of document.querySelectorAll('iframe')) {
    if (frame.contentWindow === event.source) frame.style.height = `${Math.min(20000, Math.max(80, Math.ceil(event.data.height)))}px`;
  }
});
