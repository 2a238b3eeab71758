import { isRightToLeft } from '../locales/messages.ts';
import { createWebPush, type WebPush } from './index.ts';
import { TEXTS, type WebPushTexts } from './texts.ts';

export type { WebPushTexts };

// The same custom properties as those of <belfry-inbox>.
const STYLE = `
:host {
  display: block; color-scheme: light dark;
  font: 15px/1.5 var(--belfry-font-family, system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif);
  --_text: var(--belfry-text-color, light-dark(#1c1f26, #eceef2));
  --_accent: var(--belfry-accent-color, light-dark(#4b47d6, #9a9bff));
  --_on-accent: var(--belfry-on-accent-color, light-dark(#fff, #14151c));
  --_line: var(--belfry-border-color, light-dark(#8a91a0, #6b7280));
}
:host([hidden]) { display: none }
:host([color-scheme=light]) { color-scheme: light }
:host([color-scheme=dark]) { color-scheme: dark }
div { display: flex; flex-wrap: wrap; align-items: center; gap: .75rem 1rem }
p { flex: 1 1 14rem; margin: 0; color: var(--_text) }
button {
  font: inherit; font-weight: 600; padding: .45rem 1rem; cursor: pointer;
  border: 1px solid var(--_accent); border-radius: var(--belfry-border-radius, 8px);
  background: var(--_accent); color: var(--_on-accent);
}
button.on { background: none; color: var(--_text); border-color: var(--_line) }
button[hidden] { display: none }
button[aria-disabled=true] { opacity: .6; cursor: default }
button:focus-visible { outline: 3px solid var(--_accent); outline-offset: 2px }
`;

// On a server there are no elements, and importing this does nothing.
const Base = globalThis.HTMLElement ?? (class {} as typeof HTMLElement);

/**
 * `<belfry-web-push>`: a button that turns the notifications of this browser on and off, with a text about
 * its state. Dispatches `belfry-change` with the snapshot as detail. Parts: `text`, `button`.
 */
export class BelfryWebPush extends Base {
  static readonly observedAttributes = [
    'base-url',
    'token',
    'service-worker-url',
    'token-url',
    'home-url',
    'locale',
  ];
  /** The User JWT, or a function that returns it. Takes precedence over the attribute. */
  #token: string | (() => string | Promise<string>) | undefined;
  #messages: Partial<WebPushTexts> | undefined;
  #webPush: WebPush | undefined;
  #ownWebPush: WebPush | undefined;
  #unsubscribe: (() => void) | undefined;
  #shown: { text: HTMLElement; button: HTMLButtonElement } | undefined;

  get token(): string | (() => string | Promise<string>) | undefined {
    return this.#token ?? this.getAttribute('token') ?? undefined;
  }

  set token(token: string | (() => string | Promise<string>) | undefined) {
    this.#token = token;
    this.#connect();
  }

  /** A state of your own, instead of the attributes. */
  get webPush(): WebPush | undefined {
    return this.#ownWebPush ?? this.#webPush;
  }

  set webPush(webPush: WebPush | undefined) {
    this.#ownWebPush = webPush;
    this.#connect();
  }

  /** Texts that replace those of the language, or that are in the language of `locale`. */
  get messages(): Partial<WebPushTexts> | undefined {
    return this.#messages;
  }

  set messages(messages: Partial<WebPushTexts> | undefined) {
    this.#messages = messages;
    this.#render();
  }

  connectedCallback(): void {
    // A property that was set before the element was defined hides its accessor.
    for (const [name, value] of Object.entries(this)) {
      if (!(name in BelfryWebPush.prototype)) continue;
      Reflect.deleteProperty(this, name);
      Reflect.set(this, name, value);
    }
    this.#shown ??= this.#build();
    this.#connect();
  }

  disconnectedCallback(): void {
    this.#unsubscribe?.();
    this.#unsubscribe = undefined;
  }

  attributeChangedCallback(name: string): void {
    if (name === 'locale') this.#render();
    else this.#connect();
  }

  #connect(): void {
    this.#unsubscribe?.();
    this.#unsubscribe = undefined;
    const baseUrl = this.getAttribute('base-url');
    const { token } = this;
    if (!this.isConnected) return;
    this.#webPush =
      this.#ownWebPush ??
      (baseUrl === null || token === undefined
        ? undefined
        : createWebPush({
            baseUrl,
            token,
            serviceWorkerUrl: this.getAttribute('service-worker-url') ?? undefined,
            tokenUrl: this.getAttribute('token-url') ?? undefined,
            homeUrl: this.getAttribute('home-url') ?? undefined,
          }));
    this.#unsubscribe = this.#webPush?.subscribe(() => {
      this.#render();
      const detail = this.#webPush?.getSnapshot();
      this.dispatchEvent(new CustomEvent('belfry-change', { bubbles: true, composed: true, detail }));
    });
    this.#render();
  }

  #build(): { text: HTMLElement; button: HTMLButtonElement } {
    const root = this.attachShadow({ mode: 'open' });
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(STYLE);
    root.adoptedStyleSheets = [sheet];
    const text = document.createElement('p');
    const button = document.createElement('button');
    const box = document.createElement('div');
    text.setAttribute('role', 'status');
    text.part.add('text');
    button.type = 'button';
    button.part.add('button');
    button.addEventListener('click', () => {
      const { status, isBusy } = this.#webPush?.getSnapshot() ?? {};
      if (!isBusy) void (status === 'on' ? this.#webPush?.disable() : this.#webPush?.enable());
    });
    box.append(text, button);
    root.append(box);
    return { text, button };
  }

  #render(): void {
    if (this.#shown === undefined) return;
    const { text, button } = this.#shown;
    const locale = this.getAttribute('locale');
    const known = textsFor(locale);
    const texts = { ...known.texts, ...this.#messages };
    const lang = (this.#messages && locale) || known.lang;
    const { status, isBusy, error } = this.#webPush?.getSnapshot() ?? {
      status: 'loading',
      isBusy: false,
      error: undefined,
    };
    const isOn = status === 'on';
    text.lang = button.lang = lang;
    text.dir = button.dir = isRightToLeft(lang) ? 'rtl' : 'ltr';
    text.textContent = status === 'loading' ? '' : error ? texts.failed : texts[status];
    button.textContent = isOn ? texts.turnOff : texts.turnOn;
    button.classList.toggle('on', isOn);
    button.hidden = status !== 'off' && status !== 'on';
    button.ariaDisabled = String(isBusy); // a disabled one would lose the focus
  }
}

/** The texts in the language of the locale, or of the page, or of the browser. */
function textsFor(locale: string | null): { texts: WebPushTexts; lang: string } {
  for (const tag of [locale, document.documentElement.lang, ...navigator.languages]) {
    const lang = tag?.toLowerCase().split(/[-_]/)[0] ?? '';
    const texts = Object.hasOwn(TEXTS, lang) ? TEXTS[lang] : undefined;
    if (texts !== undefined) return { texts, lang };
  }
  return { texts: TEXTS.en as WebPushTexts, lang: 'en' };
}

if (globalThis.customElements?.get('belfry-web-push') === undefined)
  globalThis.customElements?.define('belfry-web-push', BelfryWebPush);
