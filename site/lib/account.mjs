// The general account: one formula, any decoder. Sizes in bytes; the source prints decimal GB.

/** N parameters, l layers, d width, h heads, v vocabulary; B sequences, T tokens, s bytes of an activation. */
export function account({ n, l, d, h, v }, { B = 1, T = 2048, s = 4 } = {}) {
  const weights = 4 * n;
  const rest = 12 * n;
  const kept = s * (B * T * d + l * (16 * B * T * d + 2 * B * h * T * T) + B * T * v);
  return { weights, rest, kept, total: weights + rest + kept };
}

export const parameters = ({ l, d, v }) => 2 * v * d + 12 * l * d * d;

/** Standard shapes of round sizes. Two are the account's, as far as they can be told from its printed terms; the others are ours. */
export function standardShapes(source) {
  const inferred = Object.fromEntries(source.rows.map((row) => [row.id, row]));
  const from = (id) => {
    const { parameters: n, shape_inferred: shape } = inferred[id];
    return { n, l: shape.n_layer, d: shape.n_embd, h: shape.n_head, v: shape.vocab_size };
  };
  const ours = (l, d, h, v) => ({ n: parameters({ l, d, v }), l, d, h, v });
  const seven = source.example_7b.shape;
  return [
    ['10 M', ours(8, 256, 4, 7168)],
    ['40 M', from('40m-2048')],
    ['100 M', from('100m-2048')],
    ['350 M', ours(26, 1024, 16, 11136)],
    ['1 B', ours(18, 2048, 16, 22912)],
    ['7 B', { n: seven.parameters, l: seven.n_layer, d: seven.n_embd, h: seven.n_head, v: seven.vocab_size }],
    ['70 B', ours(86, 8192, 64, 45056)],
  ];
}

const published = ['gpt2', 'smollm2-135m', 'qwen2.5-0.5b', 'llama-3.2-1b', 'llama-2-7b', 'llama-3.1-8b', 'qwen2.5-14b', 'llama-3.1-70b'];

/** Published configurations, by their counted parameters. */
export function publishedShapes(models) {
  const list = models.models ?? models;
  return published.flatMap((id) => {
    const model = list.find((m) => m.id === id);
    const n = model?.params?.counted ?? model?.params?.computed ?? model?.params?.total;
    return n ? [[id, { n, l: model.layers, d: model.d_model, h: model.heads, v: model.vocab }]] : [];
  });
}
