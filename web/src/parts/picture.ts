// A chart as a file: a copy with every colour written out, so that it stands without our style sheet.

const COPIED = ['fill', 'stroke', 'stroke-width', 'stroke-dasharray', 'stroke-opacity', 'stroke-linejoin', 'opacity', 'font', 'font-weight', 'paint-order'] as const;

export function standaloneSvg(source: SVGSVGElement, title: string, background: string): string {
  const copy = source.cloneNode(true) as SVGSVGElement;
  const from = [source, ...source.querySelectorAll('*')];
  const to = [copy, ...copy.querySelectorAll('*')];
  from.forEach((element, i) => {
    const computed = getComputedStyle(element);
    const target = to[i]!;
    for (const name of COPIED) {
      const value = computed.getPropertyValue(name);
      // A paint server by id stays as it is written; a computed one is an absolute address.
      if (!value || value.includes('url(') || (name === 'font' && element.tagName !== 'text')) continue;
      if (name === 'font') {
        target.setAttribute('font-size', computed.fontSize);
        target.setAttribute('font-family', 'system-ui, sans-serif');
      } else target.setAttribute(name, value);
    }
    target.removeAttribute('class');
    target.removeAttribute('data-testid');
    target.removeAttribute('part');
    target.removeAttribute('style');
    target.removeAttribute('data-say');
  });
  const [, , width = 800, height = 400] = (copy.getAttribute('viewBox') ?? '').split(' ').map(Number);
  copy.setAttribute('xmlns', 'http://www.w3.org/2000/svg');
  copy.setAttribute('width', String(width));
  copy.setAttribute('height', String(height));
  const ground = document.createElementNS('http://www.w3.org/2000/svg', 'rect');
  for (const [key, value] of Object.entries({ x: -8, y: -8, width: width + 16, height: height + 16, fill: background })) ground.setAttribute(key, String(value));
  const name = document.createElementNS('http://www.w3.org/2000/svg', 'title');
  name.textContent = title;
  copy.prepend(name, ground);
  copy.setAttribute('viewBox', `-8 -8 ${width + 16} ${height + 16}`);
  return new XMLSerializer().serializeToString(copy);
}

export async function toPng(svg: string, scale = 2): Promise<Blob> {
  const image = new Image();
  const url = URL.createObjectURL(new Blob([svg], { type: 'image/svg+xml' }));
  try {
    image.src = url;
    await image.decode();
    const canvas = document.createElement('canvas');
    canvas.width = Math.ceil(image.naturalWidth * scale);
    canvas.height = Math.ceil(image.naturalHeight * scale);
    canvas.getContext('2d')!.drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((resolve, reject) => canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error('no picture'))), 'image/png'));
  } finally {
    URL.revokeObjectURL(url);
  }
}

export function download(content: string | Blob, name: string, type: string): void {
  const url = URL.createObjectURL(typeof content === 'string' ? new Blob([content], { type }) : content);
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
