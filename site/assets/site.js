// What the pages do themselves: the theme, the guess, the table of the general account. The element does the rest.
'use strict';
(() => {
  const root = document.documentElement;
  const store = {
    get() { try { return localStorage.getItem('theme'); } catch { return null; } },
    set(value) { try { localStorage.setItem('theme', value); } catch { /* a page without storage keeps the choice until it is closed */ } },
  };
  const themes = ['auto', 'light', 'dark'];
  const show = (theme) => {
    if (theme === 'auto') delete root.dataset.theme;
    else root.dataset.theme = theme;
    const button = document.querySelector('.theme');
    if (button) { button.textContent = `Theme: ${theme}`; button.hidden = false; }
  };
  let theme = themes.includes(store.get()) ? store.get() : 'auto';
  show(theme);
  document.querySelector('.theme')?.addEventListener('click', () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    store.set(theme);
    show(theme);
  });

  const GiB = 2 ** 30;
  const number = (text) => {
    const clean = text.trim().replace(/\s|GiB|GB|MiB/gi, '').replace(/,(?=\d{3}(\D|$))/g, '').replace(',', '.');
    return /^\d+(\.\d+)?$/.test(clean) ? Number(clean) : NaN;
  };

  const guess = document.querySelector('.guess');
  if (guess) {
    const [form, range, box, answer, mark, error] =
      ['.guess-form', '#guess-range', '#guess-number', '.guess-answer', '.guess-mark', '#guess-error'].map((s) => guess.querySelector(s));
    const { peak, weights, state } = Object.fromEntries(Object.entries(guess.dataset).map(([k, v]) => [k, Number(v)]));
    const fromRange = (v) => 0.1 * 1000 ** (v / 100); // 0.1 to 100, evenly by factors
    const neat = (v) => (v < 1 ? v.toFixed(2) : v < 10 ? v.toFixed(1) : v.toFixed(0));
    form.hidden = false;
    const wordRange = () => range.setAttribute('aria-valuetext', `${neat(fromRange(range.value))} GiB`);
    wordRange();
    range.addEventListener('input', () => { box.value = neat(fromRange(range.value)); wordRange(); check(); });
    const check = () => {
      const value = number(box.value);
      const bad = !(value > 0) || value > 100000;
      box.setAttribute('aria-invalid', String(bad));
      error.hidden = !bad;
      error.textContent = bad ? 'Write a number of GiB, such as 1.5.' : '';
      return bad ? null : value;
    };
    box.addEventListener('change', () => { const v = check(); if (v) { range.value = 100 * Math.log(v / 0.1) / Math.log(1000); wordRange(); } });
    const truth = document.createElement('p');
    truth.className = 'guess-mark peak-mark';
    truth.hidden = true;
    truth.setAttribute('aria-hidden', 'true');
    mark.after(truth);
    const place = (line, text, y) => {
      const label = document.createElement('span');
      label.textContent = text;
      line.replaceChildren(label);
      line.hidden = false;
      requestAnimationFrame(() => { line.style.translate = `0 ${y}px`; });
    };
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      const value = check();
      if (value === null) { box.focus(); return; }
      const real = peak / GiB;
      const ratio = real / value;
      const verdict = ratio > 1.15 ? `${ratio < 10 ? ratio.toFixed(1) : Math.round(ratio)} times your guess`
        : ratio < 0.87 ? `your guess was ${(1 / ratio).toFixed(1)} times too high` : 'very close';
      const strong = document.createElement('strong');
      strong.textContent = `${real.toFixed(2)} GiB`;
      answer.replaceChildren(strong, `: ${verdict}. The weights are ${(weights / GiB).toFixed(2)} GiB of it; with gradients and Adam's state, ${(state / GiB).toFixed(2)}. The rest is what this post is about.`);
      const plot = guess.querySelector('.guess-plot .plot').getBoundingClientRect();
      const box0 = guess.querySelector('.guess-plot').getBoundingClientRect();
      const level = (v) => Math.min(box0.height - 4, Math.max(4, plot.bottom - box0.top - plot.height / 1.14 * (v / real))); // 1.14: the picture's head room
      place(mark, `your guess, ${neat(value)} GiB${value > 1.2 * real ? ' (off the picture)' : ''}`, level(value));
      if (Math.abs(level(value) - level(real)) > 40) place(truth, `the peak, ${real.toFixed(2)} GiB`, level(real));
      else truth.hidden = true;
    });
  }

  // The general account's table, for any batch and length.
  const account = document.querySelector('[data-account]');
  if (account) {
    const form = account.querySelector('form');
    const GB = (bytes) => (bytes >= 1e12 ? `${(bytes / 1e12).toFixed(2)} TB` : `${(bytes / 1e9).toFixed(bytes < 1e10 ? 2 : 1)} GB`);
    const update = () => {
      const B = number(form.elements.batch.value), T = number(form.elements.tokens.value);
      const [s, budget] = [Number(form.elements.bytes.value), number(form.elements.budget.value)];
      const names = { batch: B, tokens: T, budget };
      let bad = false;
      for (const [name, value] of Object.entries(names)) {
        const wrong = !(value > 0) || (name !== 'budget' && !Number.isInteger(value)) || value > 1e9;
        form.elements[name].setAttribute('aria-invalid', String(wrong));
        bad ||= wrong;
      }
      account.querySelector('.error').hidden = !bad;
      if (bad) return;
      for (const row of account.querySelectorAll('tbody tr')) {
        const { n, l, d, h, v } = Object.fromEntries(Object.entries(row.dataset).map(([k, x]) => [k, Number(x)]));
        const weights = 4 * n, rest = 12 * n;
        const kept = s * (B * T * d + l * (16 * B * T * d + 2 * B * h * T * T) + B * T * v);
        const total = weights + rest + kept;
        const cells = row.querySelectorAll('td');
        [weights, kept, rest, total].forEach((bytes, i) => { cells[i + 1].textContent = GB(bytes); });
        const fits = total <= budget * 1e9;
        cells[5].textContent = fits ? '✓ within' : '✕ over';
        cells[5].className = fits ? 'ok' : 'bad';
      }
    };
    form.addEventListener('input', update);
    form.addEventListener('submit', (e) => e.preventDefault());
    update();
  }
})();
