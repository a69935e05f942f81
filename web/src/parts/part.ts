// What all parts share. A part renders into its parent's shadow root, not one of its own: one style sheet, one scope of ids, and
// ::part() reaches everything.
import { LitElement, type PropertyDeclarations } from 'lit';
import type { Session, Topic } from '../data/session.js';

export abstract class Part extends LitElement {
  static override properties: PropertyDeclarations = { session: { attribute: false } };
  declare session: Session;

  /** What makes the part draw itself again. */
  protected abstract readonly topics: readonly Topic[];
  #leave?: () => void;

  protected override createRenderRoot(): HTMLElement {
    return this;
  }

  override connectedCallback(): void {
    super.connectedCallback();
    this.#join();
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    this.#leave?.();
    this.#leave = undefined;
  }

  protected override willUpdate(changed: Map<PropertyKey, unknown>): void {
    if (changed.has('session')) this.#join();
  }

  #join(): void {
    this.#leave?.();
    this.#leave = this.session && this.isConnected ? this.session.subscribe(this.topics, () => this.changed()) : undefined;
  }

  /** A topic spoke. Charts that paint by hand override it. */
  protected changed(): void {
    this.requestUpdate();
  }
}

/** Defines a part once, even if the script is on the page twice. */
export function define(name: string, constructor: CustomElementConstructor): void {
  if (!customElements.get(name)) customElements.define(name, constructor);
}

export function reducedMotion(): boolean {
  return matchMedia('(prefers-reduced-motion: reduce)').matches;
}
