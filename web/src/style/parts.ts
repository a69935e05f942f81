// The parts' own rules.
import { css } from 'lit';

export const verdict = css`
  .verdict-head { display: grid; gap: 0.35rem; }
  .badge { display: inline-flex; align-items: center; gap: 0.4em; font-size: 0.84em; font-weight: 600; letter-spacing: 0.01em; }
  [data-state='fits'] .badge { color: var(--_ok); }
  [data-state='tight'] .badge { color: var(--_tight); }
  [data-state='oom'] .badge { color: var(--_bad); }
  .mark { inline-size: 1em; block-size: 1em; flex: none; vertical-align: -0.12em; }
  .verdict-line { font-size: clamp(1.35rem, 0.9rem + 2.3cqi, 2.3rem); font-weight: 640; letter-spacing: -0.022em; line-height: 1.16; text-wrap: balance; }
  .largest { font-weight: inherit; color: var(--_accent); }
  [data-state='oom'] .largest { color: var(--_bad); }
  .stale { font-size: 0.9em; color: var(--_tight); margin-block-start: 0.5rem; }
  .figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(8.2rem, 100%), 1fr)); gap: 0.75rem 1.25rem; margin: 1.1rem 0 0; }
  .figures div { border-block-start: 2px solid var(--_fg); padding-block-start: 0.4rem; }
  .figures .bad { border-color: var(--_bad); }
  dt { font-size: 0.82em; color: var(--_muted); }
  dd { margin: 0; font-size: 1.22em; font-weight: 600; letter-spacing: -0.01em; }
  .reason { margin-block-start: 1rem; max-inline-size: 46em; }
  .try { display: flex; flex-wrap: wrap; gap: 0.4rem 0.5rem; align-items: center; margin-block-start: 0.8rem; }
  .try > span { font-size: 0.86em; font-weight: 600; margin-inline-end: 0.25rem; }
  .assumes { margin-block-start: 0.9rem; font-size: 0.82em; color: var(--_muted); max-inline-size: 60em; }
`;

export const charts = css`
  svg { display: block; overflow: visible; max-inline-size: 100%; }
  svg text { font: 12px var(--_font); fill: var(--_muted); font-variant-numeric: tabular-nums; }
  .mark { display: inline-block; }
  .fill-parameters { fill: var(--_parameters); } .fill-optimizer { fill: var(--_optimizer); } .fill-gradients { fill: var(--_gradients); }
  .fill-activations { fill: var(--_activations); } .fill-attention { fill: var(--_attention); } .fill-logits { fill: var(--_logits); }
  .fill-temporaries { fill: var(--_temporaries); } .fill-other { fill: var(--_other); }
  .pattern-on-colour { stroke: #000; }
  .pattern-pool { stroke: var(--_fg); }
  .pattern-refused { stroke: var(--_bad); }
  svg .on-colour { font-weight: 600; font-size: 11.5px; fill: #14151a; pointer-events: none; }
  svg .on-parameters, svg .on-optimizer { fill: #fff; }
  .swatch { display: inline-block; inline-size: 0.72em; block-size: 0.72em; border-radius: 2px; margin-inline-end: 0.5em; flex: none; }
  .swatch-parameters { background-color: var(--_parameters); } .swatch-optimizer { background: repeating-linear-gradient(0deg, #0005 0 1px, transparent 1px 4px) var(--_optimizer); }
  .swatch-gradients { background-color: var(--_gradients); } .swatch-activations { background-color: var(--_activations); }
  .swatch-attention { background: repeating-linear-gradient(135deg, #0006 0 1px, transparent 1px 4px) var(--_attention); } .swatch-logits { background-color: var(--_logits); }
  .swatch-temporaries { background: radial-gradient(circle at 50% 50%, #0008 1px, transparent 1.2px) 0 0 / 4px 4px var(--_temporaries); } .swatch-other { background-color: var(--_other); }
  .swatch-pool { background: repeating-linear-gradient(135deg, var(--_muted) 0 1px, transparent 1px 4px); outline: 1px solid var(--_edge); outline-offset: -1px; }
  .swatch.line-allocated { block-size: 0; border-block-start: 2px solid var(--_fg); border-radius: 0; vertical-align: 0.25em; inline-size: 1em; }
  .swatch.line-reserved { block-size: 0; border-block-start: 2px dashed var(--_fg); border-radius: 0; vertical-align: 0.25em; inline-size: 1em; }
  .legend { border-collapse: collapse; margin-block-start: 0.5rem; font-size: 0.86em; inline-size: 100%; }
  .legend tbody { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(15.5rem, 100%), 1fr)); column-gap: 2rem; }
  .legend tr { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0 0.75rem; padding-block: 0.17rem; border-block-end: 1px solid color-mix(in srgb, var(--_rule) 60%, transparent); }
  .legend th { font-weight: 400; text-align: start; padding: 0; min-inline-size: 0; overflow-wrap: anywhere; }
  .legend td { padding: 0; text-align: end; font-weight: 550; margin-inline-start: auto; }
  .legend .none { color: var(--_muted); } .legend .none td { font-weight: 400; }

  svg.bar { inline-size: 100%; }
  .bar-ground { fill: var(--_soft); stroke: none; }
  .bar-piece { stroke: var(--_bg); stroke-width: 1; }
  .frame:has(.ledger) .bar-piece { cursor: pointer; }
  .bar-pool { stroke: var(--_edge); stroke-width: 1; }
  .bar-limit path { stroke: var(--_fg); stroke-width: 2; } .bar-limit text { fill: var(--_fg); font-weight: 600; }
  .bar-tick path { stroke: var(--_edge); }
  .cards { list-style: none; display: flex; flex-wrap: wrap; gap: 0.4rem; padding: 0; margin: 0.9rem 0 0; }
  .cards button { color: inherit; display: inline-flex; align-items: center; gap: 0.35em; }
  .cards button[aria-pressed='true'] { color: var(--_bg); }

  .m-frame { touch-action: pan-y; }
  svg.mountain { inline-size: 100%; cursor: crosshair; }
  .m-area { stroke: var(--_bg); stroke-width: 0.7; }
  .m-slack { stroke: none; opacity: 0.4; }
  .m-allocated { fill: none; stroke: var(--_fg); stroke-width: 1.3; }
  .m-reserved { fill: none; stroke: var(--_fg); stroke-width: 1.5; stroke-dasharray: 5 3; }
  .m-axis path { stroke: var(--_rule); stroke-width: 1; } .m-axis .m-floor { stroke: var(--_edge); }
  .m-phases text { fill: var(--_muted); font-weight: 550; }
  .m-divide { stroke: var(--_edge); stroke-width: 1; stroke-dasharray: 1 3; }
  .m-phase { stroke: var(--_edge); stroke-width: 3; }
  .m-phase-backward { stroke: var(--_fg); }
  .m-limit path { stroke: var(--_bad); stroke-width: 1.6; stroke-dasharray: none; } .m-limit text { fill: var(--_bad); font-weight: 600; }
  .m-flag .m-pole { stroke: var(--_fg); stroke-width: 1; stroke-dasharray: 2 2; opacity: 0.7; } .m-flag circle { fill: var(--_bg); stroke: var(--_fg); stroke-width: 2; }
  .m-flag text, .m-limit text { paint-order: stroke; stroke: var(--_bg); stroke-width: 4px; stroke-linejoin: round; }
  .m-flag .m-peak { fill: var(--_fg); font-weight: 650; } .m-flag .m-op { font-size: 11px; }
  .m-refused .m-block { stroke: var(--_bad); stroke-width: 1.5; } .m-refused .m-held { fill: var(--_soft); }
  .m-cursor { pointer-events: none; } .m-cursor path { stroke: var(--_accent); stroke-width: 1.5; } .m-cursor circle { fill: var(--_accent); stroke: var(--_bg); stroke-width: 1.5; }
  .transport { display: flex; flex-wrap: wrap; align-items: center; gap: 0.4rem; margin-block-start: 0.25rem; }
  .transport input { flex: 1 1 7rem; margin-inline: 0.4rem; inline-size: auto; }
  .pointed { font-size: 0.86em; color: var(--_muted); min-block-size: 1.45em; margin-block-start: 0.3rem; overflow-wrap: anywhere; }
  .readout { font-size: 0.92em; margin-block: 0.4rem 0.2rem; min-block-size: 2.9em; overflow-wrap: anywhere; }
`;

export const tables = css`
  .advice { list-style: none; margin: 0; padding: 0; } .advice + h4 { margin-block-start: 0.9rem; }
  .advice li { display: grid; grid-template-columns: minmax(0, 1.5fr) minmax(9rem, 1fr) auto; gap: 0.25rem 1rem; align-items: center; padding-block: 0.55rem; border-block-start: 1px solid var(--_rule); }
  .advice li:first-child { border: 0; }
  .advice-text { display: grid; font-size: 0.92em; overflow-wrap: anywhere; min-inline-size: 0; } .advice-text b { font-weight: 600; }
  .advice-text .muted { font-size: 0.9em; }
  .advice-gain { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0.1rem 0.75rem; font-size: 0.88em; min-inline-size: 0; }
  .saving { flex: 1 0 100%; block-size: 5px; background: var(--_soft); border-radius: 3px; overflow: hidden; }
  .saving i { display: block; block-size: 100%; background: var(--_accent); }
  @container what-fits (max-width: 34em) { .advice li { grid-template-columns: minmax(0, 1fr) auto; } .advice-text { grid-column: 1 / -1; } }

  table.ledger { border-collapse: collapse; inline-size: 100%; font-size: 0.86em; }
  .ledger caption { text-align: start; color: var(--_muted); padding-block-end: 0.4rem; }
  .ledger th, .ledger td { text-align: start; padding: 0.32rem 0.75rem 0.32rem 0; border-block-end: 1px solid var(--_rule); vertical-align: baseline; font-weight: 400; overflow-wrap: anywhere; }
  .ledger thead th { border-block-end: 1px solid var(--_edge); color: var(--_muted); white-space: nowrap; }
  .ledger thead button { border: 0; background: none; padding: 0; min-block-size: 24px; font-weight: 600; font-size: 1em; color: inherit; }
  .ledger [aria-sort='ascending'] button, .ledger [aria-sort='descending'] button { color: var(--_fg); }
  .ledger .bytes { text-align: end; padding-inline-end: 0; white-space: nowrap; font-weight: 600; }
  .ledger .op { color: var(--_muted); font-family: var(--_mono); font-size: 0.88em; margin-inline-start: 0.6em; }
  .ledger .shape, .ledger .formula { font-size: 0.95em; } .ledger td.formula { font-family: var(--_mono); font-size: 0.88em; white-space: nowrap; }
  @container what-fits (max-width: 52em) { .ledger .formula, .ledger .category { display: none; } }
  @container what-fits (max-width: 24em) { .ledger th.layer, .ledger td.layer { display: none; } }
  progress { max-inline-size: 100%; min-inline-size: 3em; accent-color: var(--_accent); }
  @container what-fits (max-width: 38em) { .ledger .shape { display: none; } .ledger .op { display: block; margin-inline-start: 1.35em; } .ledger .layer { white-space: nowrap; } }

  .sweep { border-collapse: separate; border-spacing: 1px; inline-size: 100%; table-layout: fixed; font-size: 0.78em; }
  .sweep caption { text-align: start; color: var(--_muted); padding-block-end: 0.5rem; font-size: 1.1em; }
  .sweep th { font-weight: 500; color: var(--_muted); padding: 0.1rem 0; text-align: center; white-space: nowrap; overflow-wrap: normal; }
  .sweep th[scope='row'] { text-align: end; padding-inline-end: 0.5rem; } .sweep thead th:first-child { inline-size: 3.4rem; }
  .sweep td { padding: 0; }
  .sweep button { display: grid; place-items: center; inline-size: 100%; min-block-size: 26px; padding: 0; border: 0; border-radius: 2px; font-size: 1em; background: var(--_soft); color: var(--_muted); overflow: hidden; }
  .sweep button[data-state='fits'] { background: color-mix(in oklab, var(--_parameters) var(--use, 30%), var(--_bg)); color: var(--_fg); }
  .sweep button[data-state='tight'] { background: repeating-linear-gradient(135deg, color-mix(in srgb, var(--_bg) 55%, transparent) 0 2px, transparent 2px 6px) var(--_activations); color: #14151a; }
  .sweep button[data-state='oom'] { background: repeating-linear-gradient(45deg, color-mix(in srgb, var(--_bad) 26%, transparent) 0 1px, transparent 1px 5px) color-mix(in srgb, var(--_logits) 13%, var(--_bg)); color: var(--_bad); }
  .sweep button[aria-current='true'] { outline: 2.5px solid var(--_fg); outline-offset: -1px; z-index: 1; position: relative; }
  .sweep-key { display: flex; flex-wrap: wrap; gap: 0.3rem 1.2rem; font-size: 0.84em; margin-block-start: 0.6rem; align-items: center; }
  .sweep-key button, .sweep-key i { inline-size: 1.6em; min-block-size: 1.1em; display: inline-block; border-radius: 2px; margin-inline-end: 0.45em; vertical-align: -0.2em; }
  .key-fits { background: color-mix(in oklab, var(--_parameters) 45%, var(--_bg)); } .key-tight { background: repeating-linear-gradient(135deg, color-mix(in srgb, var(--_bg) 55%, transparent) 0 2px, transparent 2px 6px) var(--_activations); }
  .key-oom { background: repeating-linear-gradient(45deg, color-mix(in srgb, var(--_bad) 40%, transparent) 0 1px, transparent 1px 5px) color-mix(in srgb, var(--_logits) 13%, var(--_bg)); }

  .pool { inline-size: 100%; }
  .pool-used { stroke: var(--_bg); stroke-width: 0.6; } .pool-free { stroke: var(--_edge); stroke-width: 0.8; } .pool-edge { fill: none; stroke: var(--_fg); stroke-width: 1; }
  .drop { border: 1.5px dashed var(--_edge); border-radius: var(--_radius); padding: 1rem; display: grid; gap: 0.75rem; grid-template-columns: minmax(0, 1fr); overflow-wrap: anywhere; }
  .drop input[type='file'] { max-inline-size: 100%; min-inline-size: 0; }
  ::file-selector-button { font: inherit; color: inherit; padding: 0.28em 0.8em; margin-inline-end: 0.6em; border: 1px solid var(--_edge); border-radius: 0.35em; background: var(--_bg); cursor: pointer; }
  .drop.over { border-color: var(--_accent); background: var(--_soft); }
  .drop textarea { min-block-size: 6.5em; font-family: var(--_mono); font-size: 0.82em; resize: vertical; }
  .row { display: flex; flex-wrap: wrap; gap: 0.5rem; align-items: center; }
  .said { font-size: 0.9em; overflow-wrap: anywhere; }
  .said ul { margin: 0.25rem 0 0; padding-inline-start: 1.1em; }
  output { display: block; }

  @media (forced-colors: active) { .swatch, .saving i, .sweep button, .bar-piece { forced-color-adjust: none; } }
  @media print {
    .tools, .transport, wf-controls, .drop, wf-import, wf-export, .topline, button.quiet, .advice button { display: none !important; }
    .frame { border: 0; padding: 0; }
  }
`;
