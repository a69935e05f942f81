// What is drawn together and in which colour. The hues are those of Okabe and Ito, measured to stay apart under the three
// colour-vision deficiencies; neighbours in the stack differ most. A pattern, a separator and a direct label go with each, so
// colour never speaks alone.

/** The core's categories, in its order. */
export const CATEGORIES = [
  'parameters', 'gradients', 'optimizer_state', 'buffers', 'workspaces', 'activations', 'attention', 'logits', 'temporaries', 'inputs',
  'rounding',
] as const;

export interface Group {
  id: string;
  label: string;
  categories: readonly string[];
  /** Of a pattern laid over the colour; empty for plain. */
  pattern: '' | 'rising' | 'falling' | 'dots' | 'cross' | 'level';
}

/** Bottom of the stack first: what stays for the whole run, then what comes and goes. */
export const GROUPS: readonly Group[] = [
  { id: 'parameters', label: 'parameters', categories: ['parameters'], pattern: '' },
  { id: 'optimizer', label: 'optimizer state', categories: ['optimizer_state'], pattern: 'level' },
  { id: 'other', label: 'buffers, inputs, rounding', categories: ['buffers', 'workspaces', 'inputs', 'rounding'], pattern: '' },
  { id: 'gradients', label: 'gradients', categories: ['gradients'], pattern: '' },
  { id: 'activations', label: 'activations', categories: ['activations'], pattern: '' },
  { id: 'attention', label: 'attention', categories: ['attention'], pattern: 'rising' },
  { id: 'logits', label: 'logits', categories: ['logits'], pattern: '' },
  { id: 'temporaries', label: 'temporaries', categories: ['temporaries'], pattern: 'dots' },
];

const groupIndex = new Map<string, number>();
GROUPS.forEach((group, index) => group.categories.forEach((category) => groupIndex.set(category, index)));

/** By index into CATEGORIES: index into GROUPS. */
export const GROUP_OF: readonly number[] = CATEGORIES.map((category) => groupIndex.get(category) ?? 2);

export function groupOf(category: string): Group {
  return GROUPS[groupIndex.get(category) ?? 2]!;
}

export function categoryLabel(category: string): string {
  return category.replace(/_/g, ' ');
}

/** Bytes by group, from bytes by category. */
export function grouped(categories: Record<string, number>): number[] {
  const sums = GROUPS.map(() => 0);
  for (const [category, value] of Object.entries(categories)) sums[groupIndex.get(category) ?? 2]! += value;
  return sums;
}
