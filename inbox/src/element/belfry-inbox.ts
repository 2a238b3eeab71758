import type { InboxIntegrationConfig } from '@belfry/sdk';
import { en, type ListMessages, type Messages } from '../locales/en.ts';
import { loadMessages } from '../locales/messages.ts';
import { createInbox, type Inbox } from '../store/inbox.ts';
import { setAttribute } from './dom.ts';
import type { BelfryInboxTarget } from './events.ts';
import { STYLES } from './styles.ts';
import { setProperties, themeProperties } from './theme.ts';
import { createView, type View } from './view.ts';

type Mode = 'popover' | 'page' | 'embedded';
type Theme = Parts<NonNullable<InboxIntegrationConfig['theme']>>;
type Parts<Value> = Value extends object ? { [Name in keyof Value]?: Parts<Value[Name]> } : Value;

const RETRY_MS = 10_000;
const ATTRIBUTES = 'base-url token mode locale color-scheme category topic status open preferences'.split(
  ' ',
);

// A server has no elements, but may import this file.
const Base = (globalThis.HTMLElement ?? class {}) as new () => BelfryInboxTarget & HTMLElement;

/**
 * `<belfry-inbox>`: a bell with a popover, or an inbox as a part of a page. See README.md for its attributes,
 * events, CSS parts and custom properties.
 */
export class BelfryInbox extends Base {
  static readonly observedAttributes = ATTRIBUTES;
  #store: Inbox | undefined;
  #ownsStore = false;
  #token: string | (() => string | Promise<string>) | undefined;
  #theme: Theme | undefined;
  #ownMessages: Partial<Messages> | undefined;
  #loaded: { locale: string; messages: ListMessages } = { locale: 'en', messages: en };
  #themeSheet: CSSStyleSheet | undefined;
  #view: View | undefined;

  /** The store to show, instead of one made from `baseUrl` and `token`. */
  get inbox(): Inbox | undefined {
    return this.#store;
  }
  set inbox(inbox: Inbox | undefined) {
    if (inbox === this.#store) return;
    this.#closeOwnStore();
    this.#store = inbox;
    this.#mount();
  }

  get baseUrl(): string {
    return this.getAttribute('base-url') ?? '';
  }
  set baseUrl(value: string) {
    setAttribute(this, 'base-url', value);
  }

  /** A User JWT, or a function that returns it. */
  get token(): string | (() => string | Promise<string>) | undefined {
    return this.#token ?? this.getAttribute('token') ?? undefined;
  }
  set token(value: string | (() => string | Promise<string>) | undefined) {
    this.#token = value;
    this.#restart();
  }

  get mode(): Mode {
    const mode = this.getAttribute('mode');
    return mode === 'page' || mode === 'embedded' ? mode : 'popover';
  }
  set mode(value: Mode) {
    setAttribute(this, 'mode', value);
  }

  /** The language; by default that of the project, of the page, or of the browser. */
  get locale(): string {
    return (
      this.getAttribute('locale') ||
      this.#store?.getSnapshot().appearance?.locale ||
      this.closest('[lang]')?.getAttribute('lang') ||
      navigator.language
    );
  }
  set locale(value: string) {
    setAttribute(this, 'locale', value);
  }

  get colorScheme(): 'system' | 'light' | 'dark' {
    const scheme = this.getAttribute('color-scheme');
    return scheme === 'light' || scheme === 'dark' ? scheme : 'system';
  }
  set colorScheme(value: 'system' | 'light' | 'dark') {
    setAttribute(this, 'color-scheme', value);
  }

  /** Texts that replace those of the language. */
  get messages(): Partial<Messages> | undefined {
    return this.#ownMessages;
  }
  set messages(value: Partial<Messages> | undefined) {
    // Frameworks pass a new object with each rendering. A new view would lose the place and the focus.
    const texts = JSON.stringify(value ?? {}); // without those that are undefined
    const isSame = texts === JSON.stringify(this.#ownMessages ?? {});
    this.#ownMessages = JSON.parse(texts) as Partial<Messages>;
    if (!isSame) this.#mount();
  }

  /** Replaces parts of the theme of the project. */
  get theme(): Theme | undefined {
    return this.#theme;
  }
  set theme(value: Theme | undefined) {
    this.#theme = value;
    this.#applyTheme();
  }

  /** Whether the popover is open. */
  get open(): boolean {
    return this.hasAttribute('open');
  }
  set open(value: boolean) {
    setAttribute(this, 'open', !!value); // React sets `undefined` to remove a property
  }

  connectedCallback(): void {
    // A property that was set before the element was defined hides its accessor.
    for (const [name, value] of Object.entries(this)) {
      if (!(name in BelfryInbox.prototype)) continue;
      Reflect.deleteProperty(this, name);
      Reflect.set(this, name, value);
    }
    this.#mount();
  }

  disconnectedCallback(): void {
    this.#unmount();
    this.#closeOwnStore();
  }

  attributeChangedCallback(name: string, before: string | null, now: string | null): void {
    if (before === now || !this.isConnected) return;
    if (name === 'base-url' || name === 'token') this.#restart();
    else if (name === 'open') this.#view?.setOpen(this.open);
    else if (name === 'color-scheme') this.#view?.setScheme(this.colorScheme);
    else this.#mount();
  }

  /** Another server or user: starts with a new store. */
  #restart(): void {
    this.#closeOwnStore();
    this.#mount();
  }

  #closeOwnStore(): void {
    if (!this.#ownsStore) return;
    this.#store?.close();
    this.#store = undefined;
    this.#ownsStore = false;
  }

  #unmount(): void {
    this.#view?.destroy();
    this.#view = undefined;
  }

  #mount(): void {
    if (!this.isConnected) return;
    const { baseUrl, token } = this;
    if (!this.#store && baseUrl && token) {
      this.#store = createInbox({ baseUrl, token });
      this.#ownsStore = true;
    }
    const store = this.#store;
    this.#unmount();
    if (store === undefined) return;
    const shadow = this.shadowRoot ?? this.attachShadow({ mode: 'open' });
    if (this.#themeSheet === undefined) {
      const sheet = new CSSStyleSheet();
      sheet.replaceSync(STYLES);
      this.#themeSheet = new CSSStyleSheet();
      shadow.adoptedStyleSheets = [sheet, this.#themeSheet];
    }
    const { locale } = this;
    this.#load(locale);
    this.#view = createView({
      host: this,
      shadow,
      inbox: store,
      messages: { ...this.#loaded.messages, ...this.#ownMessages },
      mode: this.mode,
      locale,
      onAppearance: () => {
        this.#applyTheme();
        if (this.locale !== locale) this.#mount();
      },
    });
    this.#view.setScheme(this.colorScheme);
    this.#applyTheme();
  }

  /** Loads the texts of a language, as often as it takes. Until then, those before are shown. */
  #load(locale: string): void {
    if (locale === this.#loaded.locale || this.locale !== locale || !this.isConnected) return;
    loadMessages(locale).then(
      (messages) => {
        // Each view loads them; the first to succeed shows them.
        if (locale === this.#loaded.locale || this.locale !== locale) return;
        this.#loaded = { locale, messages };
        this.#mount();
      },
      () => setTimeout(() => this.#load(locale), RETRY_MS),
    );
  }

  #applyTheme(): void {
    const theme = this.#store?.getSnapshot().appearance?.theme ?? {};
    if (this.#themeSheet !== undefined)
      setProperties(this.#themeSheet, [...themeProperties(theme), ...themeProperties(this.#theme ?? {})]);
  }
}
