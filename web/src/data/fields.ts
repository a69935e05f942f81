// The keys of a request as attributes, link keys and controls: one table for all three. Names are the contract's in kebab-case,
// parts of an object with a dot ("allocator.expandable-segments"), as the command line has them.
import { isJsonObject as isObject, type Json, type Request } from './types.js';

export { isJsonObject as isObject } from './types.js';

export interface Choice {
  value: string;
  label: string;
}

export interface Field {
  /** Attribute and link key. */
  name: string;
  /** Where it goes in the request. */
  path: readonly string[];
  kind: 'whole' | 'word' | 'switch' | 'text' | 'json';
  label: string;
  /** Shown below the control. */
  hint?: string;
  choices?: readonly Choice[];
  /** What a request without the key means. */
  fallback?: Json;
  /** In which box of the controls. */
  box: 'main' | 'shape' | 'more' | 'card' | 'hidden';
}

const words = (labels: Record<string, string>): Choice[] => Object.entries(labels).map(([value, label]) => ({ value, label }));

/** A dimension as Hugging Face's families name it. Controls offer those that the model at hand has. */
const shape = (key: string, label: string): Field =>
  ({ name: `model.${key.replace(/_/g, '-')}`, path: ['model', key], kind: 'whole', label, hint: key, box: 'shape' });

export const FIELDS: readonly Field[] = [
  { name: 'model', path: ['model'], kind: 'text', label: 'Model', box: 'main' },
  { name: 'batch', path: ['batch'], kind: 'whole', label: 'Batch', hint: 'sequences per micro-batch', fallback: 1, box: 'main' },
  { name: 'seq-len', path: ['seq_len'], kind: 'whole', label: 'Length', hint: 'tokens per sequence', box: 'main' },
  {
    name: 'precision', path: ['precision'], kind: 'word', label: 'Precision', fallback: 'fp32', box: 'main',
    choices: words(
      { fp32: 'fp32', 'amp-bf16': 'autocast bf16', 'amp-fp16': 'autocast fp16', bf16: 'pure bf16', fp16: 'pure fp16' },
    ),
  },
  {
    // What a request without it means depends on the model, so links always say it.
    name: 'attention', path: ['attention'], kind: 'word', label: 'Attention', box: 'main',
    choices: words(
      { eager: 'eager', sdpa: 'SDPA (PyTorch picks)', 'sdpa-flash': 'SDPA flash', 'sdpa-efficient': 'SDPA memory-efficient', 'sdpa-math': 'SDPA math', 'flash-attention-2': 'FlashAttention-2' },
    ),
  },
  {
    name: 'optimizer', path: ['optimizer'], kind: 'word', label: 'Optimizer', fallback: 'adamw', box: 'main',
    choices: words(
      {
        adamw: 'AdamW (foreach)', 'adamw-fused': 'AdamW fused', 'adamw-for-loop': 'AdamW for-loop', adam: 'Adam', 'adam-amsgrad': 'Adam, AMSGrad',
        'sgd-momentum': 'SGD, momentum', 'sgd-momentum-fused': 'SGD, momentum, fused', sgd: 'SGD', adagrad: 'Adagrad', rmsprop: 'RMSprop',
        adafactor: 'Adafactor', 'adafactor-foreach': 'Adafactor (foreach)', 'adafactor-transformers': 'Adafactor of Transformers', none: 'none: no step',
        'adamw-8bit': 'AdamW 8-bit', 'adamw-8bit-paged': 'AdamW 8-bit, paged', muon: 'Muon', lion: 'Lion',
      },
    ),
  },
  {
    name: 'checkpointing', path: ['checkpointing'], kind: 'word', label: 'Checkpointing', fallback: 'none', box: 'main',
    choices: words({ none: 'none', full: 'every block', 'full-reentrant': 'every block, reentrant', selective: 'every block, selectively' }),
  },
  { name: 'device', path: ['device'], kind: 'text', label: 'Card', fallback: 'a40', box: 'main' },
  { name: 'model.n-layer', path: ['model', 'n_layer'], kind: 'whole', label: 'Layers', hint: 'n_layer', box: 'shape' },
  { name: 'model.n-embd', path: ['model', 'n_embd'], kind: 'whole', label: 'Width', hint: 'n_embd', box: 'shape' },
  { name: 'model.n-head', path: ['model', 'n_head'], kind: 'whole', label: 'Heads', hint: 'n_head, divides the width', box: 'shape' },
  { name: 'model.vocab-size', path: ['model', 'vocab_size'], kind: 'whole', label: 'Vocabulary', hint: 'vocab_size', box: 'shape' },
  { name: 'model.n-positions', path: ['model', 'n_positions'], kind: 'whole', label: 'Positions', hint: 'n_positions, the longest sequence', box: 'shape' },
  shape('hidden_size', 'Width'),
  shape('intermediate_size', 'MLP width'),
  shape('num_hidden_layers', 'Layers'),
  shape('num_attention_heads', 'Heads'),
  shape('num_key_value_heads', 'Key and value heads'),
  shape('head_dim', 'Width of a head'),
  shape('max_position_embeddings', 'Positions'),
  { name: 'model.model-type', path: ['model', 'model_type'], kind: 'text', label: 'Model type', box: 'hidden' },
  { name: 'grad-accumulation', path: ['grad_accumulation'], kind: 'whole', label: 'Accumulation', hint: 'micro-batches per optimizer step', fallback: 1, box: 'more' },
  { name: 'clip-grad-norm', path: ['clip_grad_norm'], kind: 'switch', label: 'Clip gradients', hint: 'clip_grad_norm_', fallback: false, box: 'more' },
  {
    name: 'zero-grad', path: ['zero_grad'], kind: 'word', label: 'zero_grad', fallback: 'set-to-none', box: 'more',
    choices: words({ 'set-to-none': 'set to None', 'zero-fill': 'fill with zeros' }),
  },
  {
    name: 'allocator.expandable-segments', path: ['allocator', 'expandable_segments'], kind: 'switch', label: 'Expandable segments',
    hint: 'PYTORCH_CUDA_ALLOC_CONF', fallback: false, box: 'more',
  },
  { name: 'script.warmup-matmul', path: ['script', 'warmup_matmul'], kind: 'whole', label: 'Warm-up matmul', hint: 'N × N before the model, 0 for none', box: 'more' },
  { name: 'steps', path: ['steps'], kind: 'whole', label: 'Steps replayed', fallback: 3, box: 'more' },
  { name: 'calibration', path: ['calibration'], kind: 'json', label: 'Calibration', fallback: null, box: 'hidden' },
  { name: 'device.name', path: ['device', 'name'], kind: 'text', label: 'Name', box: 'card' },
  { name: 'device.total-mib', path: ['device', 'total_mib'], kind: 'whole', label: 'Total MiB', hint: 'as CUDA reports it', box: 'card' },
  { name: 'device.free-mib', path: ['device', 'free_mib'], kind: 'whole', label: 'Free MiB', hint: 'once the context exists', box: 'card' },
  { name: 'device.compute-capability', path: ['device', 'compute_capability'], kind: 'text', label: 'Compute capability', hint: 'such as 8.6', box: 'card' },
  { name: 'device.sm-count', path: ['device', 'sm_count'], kind: 'whole', label: 'Multiprocessors', box: 'card' },
  // No control yet; attributes and links may say them, and the core answers which values it replays.
  { name: 'engine', path: ['engine'], kind: 'text', label: 'Engine', fallback: 'torch', box: 'hidden' },
  { name: 'torch', path: ['torch'], kind: 'text', label: 'PyTorch', fallback: '2.6', box: 'hidden' },
  { name: 'transformers', path: ['transformers'], kind: 'text', label: 'Transformers', fallback: '5.12', box: 'hidden' },
  { name: 'loss', path: ['loss'], kind: 'text', label: 'Loss', fallback: 'default', box: 'hidden' },
  { name: 'trainable', path: ['trainable'], kind: 'text', label: 'Trainable', fallback: 'all', box: 'hidden' },
  { name: 'assume', path: ['assume'], kind: 'text', label: 'Read as', fallback: null, box: 'hidden' },
  { name: 'lora', path: ['lora'], kind: 'json', label: 'LoRA', fallback: null, box: 'hidden' },
  { name: 'dropout', path: ['dropout'], kind: 'json', label: 'Dropout', fallback: null, box: 'hidden' },
  { name: 'parallel', path: ['parallel'], kind: 'json', label: 'Parallel', fallback: null, box: 'hidden' },
  { name: 'allocator', path: ['allocator'], kind: 'json', label: 'Allocator', box: 'hidden' },
  { name: 'script', path: ['script'], kind: 'json', label: 'Script', box: 'hidden' },
];

const byName = new Map(FIELDS.map((field) => [field.name, field]));
export function fieldOf(name: string): Field | undefined {
  return byName.get(name);
}

/** The field that a problem's key ("device.total_mib") is about: itself, else the object it is in. */
export function fieldOfKey(key: string): Field | undefined {
  const path = key.split('.');
  for (let n = path.length; n > 0; n -= 1) {
    const found = FIELDS.find((field) => field.path.join('.') === path.slice(0, n).join('.'));
    if (found) return found;
  }
  return undefined;
}

export function get(request: Request, path: readonly string[]): Json | undefined {
  let value: Json | undefined = request;
  for (const key of path) {
    if (!isObject(value) || !Object.hasOwn(value, key)) return undefined;
    value = value[key];
  }
  return value;
}

/**
 * A copy of `request` with one value set. A section that is a name (a preset) becomes an object that remembers it as `preset`;
 * see Session for what fills it.
 */
export function put(request: Request, path: readonly string[], value: Json): Request {
  const [key, ...rest] = path;
  if (key === undefined) return request;
  if (rest.length === 0) return { ...request, [key]: value };
  const inner = request[key];
  return { ...request, [key]: put(isObject(inner) ? inner : typeof inner === 'string' ? { preset: inner } : {}, rest, value) };
}

export function equal(a: Json | undefined, b: Json | undefined): boolean {
  if (a === b) return true;
  if (!isObject(a) || !isObject(b)) return JSON.stringify(a) === JSON.stringify(b);
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => Object.hasOwn(b, key) && equal(a[key], b[key]));
}
