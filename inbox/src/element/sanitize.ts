// The content of a notification is HTML from the program of a customer. It is parsed into a document that
// runs and loads nothing. From that, a new tree is built with the elements and attributes below alone. Text
// is never parsed a second time, so markup that would mean something else then has no effect.

const ELEMENTS = new Set(
  (
    'a abbr b blockquote br code dd del div dl dt em h1 h2 h3 h4 h5 h6 hr i img ins kbd li mark ol p pre q ' +
    's samp small span strong sub sup table tbody td th thead tr u ul'
  ).split(' '),
);
/** Elements whose text is not for readers. Of others that are not in `ELEMENTS`, the children remain. */
const DROPPED = new Set(
  (
    'audio button canvas datalist frameset head iframe math noembed noframes noscript object option ' +
    'plaintext script select style svg template textarea title video xmp'
  ).split(' '),
);
/** What HTML hides itself (lib/hidden-elements.ts of the server): e-mails have a text for lists of mails. */
const HIDDEN =
  '[hidden],[style*="display:none" i],[style*="display: none" i],' +
  '[style*="visibility:hidden" i],[style*="visibility: hidden" i]';
const ATTRIBUTES: Record<string, readonly string[]> = {
  img: ['alt', 'height', 'width'],
  td: ['colspan', 'rowspan'],
  th: ['colspan', 'rowspan'],
};
const LINKS = /^(https?|mailto|tel|sms):/;
const IMAGES = /^(https?:|data:image\/(png|jpeg|gif|webp|avif)[;,])/;
const XHTML = 'http://www.w3.org/1999/xhtml';
const MAX_DEPTH = 50;
const MAX_LENGTH = 50_000;

/** Builds the nodes of a notification's content: HTML without anything that runs, loads styles or submits. */
export function sanitized(html: string): DocumentFragment {
  const fragment = document.createDocumentFragment();
  const body = parse(html.slice(0, MAX_LENGTH));
  if (typeof body === 'string') fragment.append(body);
  else copy(body, fragment, 0);
  return fragment;
}

/** Returns the address of a link if it may be followed. */
export function safeUrl(url: unknown): string | undefined {
  if (typeof url !== 'string' || url.trim() === '') return undefined;
  try {
    const { href } = new URL(url, document.baseURI);
    return LINKS.test(href) ? href : undefined;
  } catch {
    return undefined;
  }
}

/** The attributes of a link. A page of another origin opens in a new tab, without access to this one. */
export function linkAttributes(href: string): Record<string, string> {
  const isOwn = new URL(href).origin === location.origin;
  return { href, rel: 'noopener noreferrer', ...(isOwn ? {} : { target: '_blank' }) };
}

function copy(from: Node, to: DocumentFragment | Element, depth: number): void {
  // A form whose inputs are named like its own properties hides them.
  for (const node of Reflect.get(Node.prototype, 'childNodes', from) as NodeListOf<Node>) {
    if (node instanceof Text) to.append(node.data);
    if (!(node instanceof Element)) continue;
    const { localName, namespaceURI } = node;
    if (namespaceURI !== XHTML || DROPPED.has(localName) || Element.prototype.matches.call(node, HIDDEN))
      continue;
    if (depth >= MAX_DEPTH) to.append(node.textContent ?? '');
    else if (!ELEMENTS.has(localName)) copy(node, to, depth + 1);
    else copy(node, to.appendChild(copyElement(node)), depth + 1);
  }
}

function copyElement(from: Element): Element {
  const name = from.localName;
  const to = document.createElement(name);
  for (const attribute of ['dir', 'lang', 'title', ...(ATTRIBUTES[name] ?? [])]) {
    const value = from.getAttribute(attribute);
    if (value !== null) to.setAttribute(attribute, value);
  }
  if (name === 'a') {
    const href = safeUrl(from.getAttribute('href'));
    if (href !== undefined)
      for (const [key, value] of Object.entries(linkAttributes(href))) to.setAttribute(key, value);
  }
  if (name === 'pre') to.tabIndex = 0; // so that keys scroll it
  if (name === 'img') {
    const src = from.getAttribute('src')?.trim() ?? '';
    // Before `src`, which starts the request.
    to.setAttribute('loading', 'lazy');
    to.setAttribute('referrerpolicy', 'no-referrer');
    if (!to.hasAttribute('alt')) to.setAttribute('alt', '');
    if (IMAGES.test(src)) to.setAttribute('src', src);
  }
  return to;
}

interface TrustedTypes {
  createPolicy(
    name: string,
    rules: { createHTML(text: string): string },
  ): { createHTML(text: string): string };
}
let policy: { createHTML(text: string): string } | undefined;

/** Parses HTML into an inert document. Returns text alone where a page forbids to parse. */
function parse(html: string): Node | string {
  if (!/[<&\0\r]/.test(html)) return html; // most contents are text
  const { parseHTML } = Document as unknown as { parseHTML?: (html: string, options: object) => Document };
  // The browser's own sanitizer needs no policy of trusted types, and removes what is unsafe first. Chromium
  // 156 crashes if that is a listener of a marquee.
  if (parseHTML !== undefined)
    return parseHTML.call(Document, html, { sanitizer: { removeElements: ['marquee'] } }).body;
  try {
    const { trustedTypes } = globalThis as { trustedTypes?: TrustedTypes };
    policy ??= trustedTypes?.createPolicy('belfry-inbox', { createHTML: (text) => text });
    return new DOMParser().parseFromString(policy?.createHTML(html) ?? html, 'text/html').body;
  } catch {
    return html.replace(/<[^>]*>?/g, ' ');
  }
}
