// The address bar, for the one page that is the element's own. Embedded elements never come here.
import { readLink, writeLink } from './data/link.js';
import type { Session } from './data/session.js';
import { isJsonObject, type Request } from './data/types.js';

/** Browsers count how often a page writes the address, and throw beyond. */
const WRITE_MS = 500;

export class Address {
  #timer: ReturnType<typeof setTimeout> | undefined;
  #push = false;

  constructor(
    private readonly session: Session,
    private readonly base: Request,
  ) {
    addEventListener('popstate', this.#back);
    addEventListener('hashchange', this.#back);
  }

  close(): void {
    removeEventListener('popstate', this.#back);
    removeEventListener('hashchange', this.#back);
    clearTimeout(this.#timer);
  }

  #back = (): void => {
    if (location.hash !== this.#link()) this.read();
  };

  #link(): string {
    return writeLink(this.session.state);
  }

  read(): void {
    const link = readLink(location.hash);
    if (!link) return;
    if (link.state.unit) this.session.setUnit(link.state.unit);
    const request: Request = { ...this.base, ...link.state.request };
    // A link that only changes a dimension changes it of the page's model.
    if (isJsonObject(request.model) && !('model_type' in request.model) && !('preset' in request.model) && typeof this.base.model === 'string') {
      request.model = { preset: this.base.model, ...request.model };
    }
    this.session.ask(request);
    this.session.lookAtEvent(link.state.event);
    this.session.note(...link.notes);
  }

  /** Decisions (a preset, an import, advice) are steps that Back undoes; a drag is not. */
  write(byUser: boolean, decision: boolean): void {
    if (!byUser) return;
    this.#push ||= decision;
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      const link = this.#link();
      try {
        if (this.#push) history.pushState(null, '', link);
        else history.replaceState(null, '', link);
      } catch {
        // A sandboxed frame may not; the link can still be copied.
      }
      this.#push = false;
    }, WRITE_MS);
  }
}
