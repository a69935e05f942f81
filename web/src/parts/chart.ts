// A part that is drawn to its width, only while it is near the screen, and that may follow the run at a reader's pace.
import { Part } from './part.js';

/** Tables and maps are read, not watched: during a drag they follow a few times a second, and where nobody looks after it. */
const FOLLOW_MS = 120;
const REST_MS = 400;

export abstract class Chart extends Part {
  /** CSS pixels; 0 until it is known. */
  protected width = 0;
  /** Near the screen. */
  protected visible = false;
  #resize?: ResizeObserver;
  #seen?: IntersectionObserver;
  #later: ReturnType<typeof setTimeout> | undefined;

  override connectedCallback(): void {
    super.connectedCallback();
    this.#resize = new ResizeObserver(([entry]) => {
      const width = Math.floor(entry!.contentRect.width);
      if (width === this.width) return;
      this.width = width;
      this.resized();
    });
    this.#resize.observe(this);
    this.#seen = new IntersectionObserver((entries) => {
      this.visible = entries.at(-1)!.isIntersecting;
      this.seen();
    }, { rootMargin: '200px' });
    this.#seen.observe(this);
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    this.#resize?.disconnect();
    this.#seen?.disconnect();
    clearTimeout(this.#later);
    this.#later = undefined;
  }

  /** It has another width. */
  protected resized(): void {
    this.requestUpdate();
  }

  /** It came near the screen, or went. */
  protected seen(): void {
    if (this.visible) this.requestUpdate();
  }

  /** Asks for an update soon, however often it is called until then; away from the screen, once nobody has called for a while. */
  protected follow(): void {
    if (!this.visible) clearTimeout(this.#later);
    else if (this.#later !== undefined) return;
    this.#later = setTimeout(() => {
      this.#later = undefined;
      this.requestUpdate();
    }, this.visible ? FOLLOW_MS : REST_MS);
  }
}

/** A line below a picture that says what is pointed at. Written past the template, so that pointing renders nothing. */
export function say(part: Part, testId: string, text: string): void {
  const line = part.querySelector(`[data-testid=${testId}]`);
  if (line && line.textContent !== text) line.textContent = text;
}
