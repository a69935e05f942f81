// The element's look. Colours are custom properties with both schemes in one place; everything else measures in em and cqi, so
// that it follows the page it stands in.
import { css } from 'lit';

export const tokens = css`
  :host {
    --_fg: var(--wf-fg, light-dark(#17181c, #ececef));
    --_muted: var(--wf-muted, light-dark(#585d68, #a3a8b3));
    --_bg: var(--wf-bg, light-dark(#ffffff, #15161a));
    --_soft: var(--wf-soft, light-dark(#f4f4f1, #1f2127));
    --_rule: var(--wf-rule, light-dark(#dcdcd6, #34373f));
    --_edge: var(--wf-edge, light-dark(#85888f, #7e838d));
    --_accent: var(--wf-accent, light-dark(#0a5c96, #6cb8f0));
    --_on-accent: light-dark(#ffffff, #0d1620);
    --_ok: var(--wf-fits, light-dark(#0b6b4f, #4ecba4));
    --_bad: var(--wf-oom, light-dark(#b03a00, #ff9a62));
    --_tight: var(--wf-tight, light-dark(#7d5600, #f0bf4c));
    --_parameters: var(--wf-cat-parameters, light-dark(#0072b2, #2d8fce));
    --_optimizer: var(--wf-cat-optimizer, light-dark(#004b78, #1b5f92));
    --_gradients: var(--wf-cat-gradients, light-dark(#56b4e9, #7cc6f2));
    --_activations: var(--wf-cat-activations, light-dark(#e69f00, #e8a919));
    --_attention: var(--wf-cat-attention, light-dark(#009e73, #12ad82));
    --_logits: var(--wf-cat-logits, light-dark(#d55e00, #e2722a));
    --_temporaries: var(--wf-cat-temporaries, light-dark(#cc79a7, #d68bb5));
    --_other: var(--wf-cat-other, light-dark(#9a9ea6, #6e737d));
    --_font: var(--wf-font, Inter, ui-sans-serif, system-ui, "Segoe UI", Roboto, sans-serif);
    --_mono: var(--wf-mono, ui-monospace, "SF Mono", "Cascadia Mono", "DejaVu Sans Mono", monospace);
    --_radius: var(--wf-radius, 0.55rem);
    --_gap: var(--wf-gap, 1.5rem);

    display: block;
    container: what-fits / inline-size;
    color: var(--_fg);
    background: var(--_bg);
    font-family: var(--_font);
    font-size: var(--wf-font-size, 1rem);
    line-height: 1.45;
    font-variant-numeric: tabular-nums;
    text-align: start;
    min-block-size: var(--wf-min-height, 12rem);
  }
  :host([theme='light']) { color-scheme: light; }
  :host([theme='dark']) { color-scheme: dark; }
  :host([theme='auto']) { color-scheme: light dark; }
  :host([hidden]) { display: none; }
  *, *::before, *::after { box-sizing: border-box; }
  wf-verdict, wf-bar, wf-controls, wf-mountain, wf-sweep, wf-ledger, wf-advice, wf-segments, wf-measured, wf-import, wf-export { display: block; min-inline-size: 0; contain: layout style; }
  .hidden { position: absolute; inline-size: 1px; block-size: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
  h3, h4 { font-size: 1.02em; font-weight: 650; letter-spacing: -0.006em; margin: 0; line-height: 1.3; }
  p { margin: 0; }
  code { font-family: var(--_mono); font-size: 0.92em; overflow-wrap: anywhere; }
  .muted { color: var(--_muted); }
  .ok { color: var(--_ok); }
  .bad { color: var(--_bad); }
  .pending { opacity: 0.5; }
`;

export const layout = css`
  .frame { padding: clamp(0.9rem, 2.6cqi, 1.75rem); border: 1px solid var(--_rule); border-radius: var(--_radius); display: grid; gap: var(--_gap); grid-template-columns: minmax(0, 1fr); }
  :host([plain]) .frame { border: 0; padding: 0; border-radius: 0; }
  .main, .side { display: grid; gap: var(--_gap); align-content: start; grid-template-columns: minmax(0, 1fr); min-inline-size: 0; }
  .main > * + * { border-block-start: 1px solid var(--_rule); padding-block-start: var(--_gap); }
  .main > .joined { border: 0; padding: 0; }
  .pair { display: grid; gap: var(--_gap); grid-template-columns: minmax(0, 1fr); }
  .pair > * + * { border-block-start: 1px solid var(--_rule); padding-block-start: var(--_gap); }
  .frame.with-side { grid-template-columns: 17.5rem minmax(0, 1fr); gap: 2.25rem; }
  .side > * { position: sticky; inset-block-start: 1rem; }
  .side { align-content: stretch; }
  .topline { display: flex; flex-wrap: wrap; gap: 0.5rem 0.75rem; align-items: center; justify-content: flex-end; }
  .topline .spacer { flex: 1; }
  .section-head { display: flex; flex-wrap: wrap; align-items: center; justify-content: space-between; gap: 0.5rem 1rem; margin-block-end: 0.75rem; }
  .tools { display: flex; flex-wrap: wrap; gap: 0.375rem 0.5rem; align-items: center; }
  .notes { border-inline-start: 3px solid var(--_tight); padding: 0.5rem 0.75rem; background: var(--_soft); font-size: 0.92em; }
  .notes ul { margin: 0; padding-inline-start: 1.1em; }
  .unavailable { border-inline-start: 3px solid var(--_bad); padding: 0.6rem 0.9rem; background: var(--_soft); }

  .fields { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(13rem, 100%), 1fr)); gap: 0.9rem 1.1rem; align-items: start; }
  .field { display: grid; gap: 0.25rem; min-inline-size: 0; }
  .field.slide { grid-column: 1 / -1; }
  @container what-fits (min-width: 40em) { .field.slide { grid-column: span 1; min-inline-size: 0; } .fields:has(> .slide) { grid-template-columns: repeat(auto-fill, minmax(min(17rem, 100%), 1fr)); } }
  .side .field.slide { grid-column: 1 / -1; } .side .fields, .side .fields:has(> .slide) { grid-template-columns: minmax(0, 1fr); }
  .field > label:not(.check) { font-size: 0.84em; font-weight: 550; color: var(--_muted); }
  .hint, small { font-size: 0.8em; color: var(--_muted); overflow-wrap: anywhere; }
  .check span { min-inline-size: 0; }
  .wrong { font-size: 0.86em; color: var(--_bad); overflow-wrap: anywhere; }
  .slider { display: grid; grid-template-columns: minmax(0, 1fr) minmax(3.2em, 5.2em); gap: 0.75rem; align-items: center; }
  .track { position: relative; display: block; }
  .limit-mark { position: absolute; inset-inline: 0.55rem; inline-size: calc(100% - 1.1rem); inset-block-end: -5px; pointer-events: none; overflow: visible; }
  .limit-mark rect { fill: var(--_bad); opacity: 0.75; }
  details { border-block-start: 1px solid var(--_rule); margin-block-start: 0.9rem; padding-block-start: 0.7rem; }
  details .fields { margin-block-start: 0.8rem; }
  summary { cursor: pointer; font-size: 0.92em; font-weight: 550; min-block-size: 24px; color: var(--_muted); }
  summary:hover { color: var(--_fg); }
`;

export const inputs = css`
  input, select, button, textarea { font: inherit; color: inherit; font-size: 0.92em; }
  input.number, select, textarea { inline-size: 100%; min-inline-size: 0; min-block-size: 2.2em; padding: 0.28em 0.55em; border: 1px solid var(--_edge); border-radius: 0.35em; background-color: var(--_bg); }
  .slider input.number { text-align: end; }
  select { appearance: none; padding-inline-end: 1.7em; text-overflow: ellipsis; background-repeat: no-repeat; background-position: right 0.55em center; background-size: 0.65em; background-image: linear-gradient(45deg, transparent 50%, var(--_muted) 50%), linear-gradient(-45deg, transparent 50%, var(--_muted) 50%); background-size: 0.34em 0.34em; background-position: right 0.95em center, right 0.62em center; }
  option, optgroup { background-color: var(--_bg); color: var(--_fg); }
  .tools select { inline-size: auto; max-inline-size: 100%; } .tools label { min-inline-size: 0; max-inline-size: 100%; }
  [aria-invalid='true'] { border-color: var(--_bad); box-shadow: 0 0 0 1px var(--_bad); }
  button { min-block-size: 2.1em; padding: 0.22em 0.8em; border: 1px solid var(--_edge); border-radius: 0.35em; background: var(--_bg); cursor: pointer; line-height: 1.3; }
  button:hover:not(:disabled) { background: var(--_soft); border-color: var(--_fg); }
  button:disabled { opacity: 0.55; cursor: default; }
  button.icon { min-inline-size: 2.1em; padding-inline: 0.4em; display: inline-grid; place-items: center; }
  button.icon.wide { padding-inline: 0.7em; }
  button[aria-pressed='true'], [role='radio'][aria-checked='true'] { background: var(--_fg); color: var(--_bg); border-color: var(--_fg); }
  button[aria-pressed='true']:hover:not(:disabled) { background: var(--_fg); }
  button.quiet { border-color: transparent; background: none; color: var(--_accent); padding-inline: 0.4em; text-decoration: underline; text-underline-offset: 0.18em; text-decoration-thickness: 1px; }
  button.quiet:hover { border-color: transparent; background: var(--_soft); }
  button.primary { background: var(--_accent); color: var(--_on-accent); border-color: var(--_accent); }
  button.primary:hover:not(:disabled) { background: var(--_accent); filter: brightness(1.1); }
  .chip { border-radius: 99rem; font-size: 0.86em; }
  :focus-visible { outline: 2px solid var(--_accent); outline-offset: 2px; }
  .check { display: inline-flex; gap: 0.5em; align-items: baseline; font-size: 0.92em; min-block-size: 24px; cursor: pointer; }
  .check small { display: block; }
  input[type='checkbox'] { accent-color: var(--_accent); inline-size: 1.05em; block-size: 1.05em; margin: 0; transform: translateY(0.12em); flex: none; }
  input[type='range'] { -webkit-appearance: none; appearance: none; inline-size: 100%; margin: 0; block-size: 28px; background: none; cursor: pointer; display: block; min-inline-size: 0; }
  input[type='range']::-webkit-slider-runnable-track { block-size: 4px; border-radius: 2px; background: var(--_rule); }
  input[type='range']::-moz-range-track { block-size: 4px; border-radius: 2px; background: var(--_rule); }
  input[type='range']::-webkit-slider-thumb { -webkit-appearance: none; inline-size: 18px; block-size: 18px; border-radius: 50%; margin-block-start: -7px; background: var(--_fg); border: 3px solid var(--_bg); box-shadow: 0 0 0 1.5px var(--_fg); }
  input[type='range']::-moz-range-thumb { inline-size: 13px; block-size: 13px; border-radius: 50%; background: var(--_fg); border: 3px solid var(--_bg); box-shadow: 0 0 0 1.5px var(--_fg); }
  .segmented { display: inline-flex; border: 1px solid var(--_edge); border-radius: 0.35em; overflow: hidden; }
  .segmented label { position: relative; }
  .segmented input { position: absolute; inset: 0; opacity: 0; inline-size: 100%; block-size: 100%; margin: 0; cursor: pointer; }
  .segmented span { display: block; padding: 0.22em 0.65em; font-size: 0.86em; min-block-size: 24px; }
  .segmented input:checked + span { background: var(--_fg); color: var(--_bg); }
  .segmented label:has(:focus-visible) { outline: 2px solid var(--_accent); outline-offset: 1px; z-index: 1; }
`;
