/**
 * A notification as an e-mail. `prepareEmail` does the work that is the same for all recipients of a
 * broadcast, once. `finishEmail` adds what differs: the frame in the language of the recipient, the
 * links of the footer and tracked links. That costs a concatenation and the signatures of the links.
 *
 * Content is HTML by contract, and is used as the sender wrote it. Many senders write plain text: content
 * without any known HTML element or character reference is escaped, and keeps its line breaks. A whole HTML
 * document is the sender's own design: only the button and the footer are added, at its end.
 */

import { ENGLISH, type Language, withValues } from '../../ground/catalogues/languages.ts';
import type { TrackedLinks } from '../../ground/links/links.ts';
import type { Sender } from '../../setup/projects/sender.ts';
import { clean, htmlToText, looksLikeHtml } from './plain-text.ts';
import { type CutHtml, cutAtLinks, fill, pictureHtml } from './tracked.ts';

/** What all recipients of a broadcast have in common. */
export type EmailContent = {
  title: string;
  content: string | null;
  actionUrl: string | null;
};

/** The content of an e-mail without its frame, to be kept while a broadcast is being delivered. */
export type PreparedEmail = {
  subject: string;
  /** The content as HTML. */
  html: string;
  /** The content is a whole document, which has no frame. */
  isDocument: boolean;
  /** What inboxes show beside the subject. */
  preview: string;
  link: string | undefined;
  text: string;
};

/** An e-mail in its frame, cut where the footer of a recipient is inserted. */
type FramedEmail = { htmlBefore: string; htmlAfter: string };

/**
 * Does everything that is the same for every recipient. Pure, and linear in the content whatever is in it.
 */
export function prepareEmail({ title, content, actionUrl }: EmailContent): PreparedEmail {
  const subject = clean(title).replace(/\s+/g, ' ').trim();
  const body = clean(content ?? '');
  const link = safeLink(actionUrl);
  const asHtml = looksLikeHtml(body);
  const text = asHtml ? htmlToText(body, 'shown') : body.trim();
  return {
    subject,
    html: asHtml ? body : htmlOf(body),
    isDocument: asHtml && isDocument(body),
    preview: preview(body, asHtml),
    link,
    text: [text, link].filter(Boolean).join('\n\n'),
  };
}

/** The e-mail for one recipient, with the fixed texts of a language. */
export function finishEmail(
  prepared: PreparedEmail,
  {
    language = ENGLISH,
    sender,
    unsubscribeUrl,
    preferencesUrl,
    tracked,
  }: {
    language?: Language;
    sender?: Sender;
    unsubscribeUrl?: string | undefined;
    preferencesUrl?: string | undefined;
    tracked?: TrackedLinks | undefined;
  } = {},
): { subject: string; html: string; text: string } {
  const { subject, text } = prepared;
  const [before, after] = filled(framed(prepared, language, sender), tracked);
  const picture = tracked?.openUrl === undefined ? '' : pictureHtml(tracked.openUrl());
  const { unsubscribe, unsubscribeAt, preferences, preferencesAt } = language.texts;
  const links = [
    { url: unsubscribeUrl, label: unsubscribe, line: unsubscribeAt },
    { url: preferencesUrl, label: preferences, line: preferencesAt },
  ].flatMap(({ url, ...texts }) => (url === undefined ? [] : [{ url, ...texts }]));
  if (links.length === 0) return { subject, html: before + picture + after, text };
  const lines = links.map(({ url, line }) => `${withValues(line, { url })}\n`);
  return {
    subject,
    html: before + footerHtml(links, prepared, language) + picture + after,
    // Mail programs recognize the end of a message by '-- '.
    text: `${text}\n\n-- \n${lines.join('')}`,
  };
}

/** E-mails in their frames, by language and sender: made for the first recipient. */
const frames = new WeakMap<PreparedEmail, Map<string, FramedEmail>>();

function framed(prepared: PreparedEmail, language: Language, sender: Sender = NO_SENDER): FramedEmail {
  const known = frames.get(prepared) ?? new Map<string, FramedEmail>();
  frames.set(prepared, known);
  const key = [language.lang, sender.name, sender.logoUrl].join('\n');
  const found = known.get(key);
  if (found !== undefined) return found;
  const { html, isDocument, link } = prepared;
  const button = link === undefined ? '' : buttonHtml(link, prepared, language);
  const [htmlBefore, htmlAfter] = isDocument
    ? intoDocument(html, button)
    : frame(prepared, { language, sender, button });
  const made = { htmlBefore, htmlAfter };
  known.set(key, made);
  return made;
}

const NO_SENDER: Sender = { name: null, logoUrl: null };

/** E-mails cut at their links: done for the first recipient whose links are tracked. */
const cuts = new WeakMap<FramedEmail, [CutHtml, CutHtml]>();

function filled(
  email: FramedEmail,
  { publicUrl, clickUrl }: Partial<TrackedLinks> = {},
): [before: string, after: string] {
  const { htmlBefore, htmlAfter } = email;
  if (publicUrl === undefined || clickUrl === undefined) return [htmlBefore, htmlAfter];
  const cut = cuts.get(email) ?? cutAtLinks([htmlBefore, htmlAfter], publicUrl);
  cuts.set(email, cut);
  return [fill(cut[0], clickUrl), fill(cut[1], clickUrl)];
}

/**
 * The headers of a notification's e-mail that do not depend on the provider (RFC 2369, 8058, 3834). Without
 * HTTPS there is none to unsubscribe: RFC 8058 requires it, and such a server has no public address.
 */
export function emailHeaders({
  notificationId,
  brand,
  unsubscribeUrl,
}: {
  notificationId: string;
  brand: string;
  unsubscribeUrl?: string | undefined;
}): Record<string, string> {
  return {
    'Auto-Submitted': 'auto-generated', // no out-of-office replies, please
    'X-Entity-Ref-ID': notificationId, // Gmail does not thread notifications of the same title
    [`X-${brand.toUpperCase()}-Notification-Id`]: notificationId,
    ...(unsubscribeUrl?.startsWith('https://')
      ? { 'List-Unsubscribe': `<${unsubscribeUrl}>`, 'List-Unsubscribe-Post': 'List-Unsubscribe=One-Click' }
      : {}),
  };
}

/**
 * Schemes that run something or read the reader's machine. All others are left to the mail program: apps have
 * their own.
 */
const UNSAFE_SCHEMES = new Set([
  'javascript:',
  'vbscript:',
  'livescript:',
  'data:',
  'file:',
  'blob:',
  'filesystem:',
  'about:',
  'view-source:',
  'jar:',
]);

/**
 * The URL, normalised; nothing for an unsafe scheme and for a relative URL, which an e-mail has no base for.
 */
export function safeLink(actionUrl: string | null): string | undefined {
  const url = actionUrl === null ? null : URL.parse(clean(actionUrl).trim());
  return url === null || UNSAFE_SCHEMES.has(url.protocol) ? undefined : url.href;
}

function isDocument(html: string): boolean {
  return /<(?:!doctype\s+html|html[\s>]|body[\s>])/i.test(html.slice(0, 2000));
}

function intoDocument(html: string, button: string): [before: string, after: string] {
  const end = lastIndexOfBodyEnd(html);
  return [html.slice(0, end) + button, html.slice(end)];
}

function lastIndexOfBodyEnd(html: string): number {
  const tail = Math.max(0, html.length - 10_000); // an end tag stands at the end
  const inTail = html.slice(tail).toLowerCase();
  const body = inTail.lastIndexOf('</body');
  const end = body === -1 ? inTail.lastIndexOf('</html') : body;
  return end === -1 ? html.length : tail + end;
}

/** Returns plain text as HTML with its paragraphs and lines. */
export function htmlOf(text: string): string {
  return withParagraphs(escapeHtml(text));
}

/**
 * Returns the paragraphs and lines of an escaped text as HTML. No group of the pattern repeats: V8 keeps a
 * place for each repeat of a group, and throws when there are millions.
 */
export function withParagraphs(escaped: string): string {
  return escaped
    .trim()
    .split(/\r?\n[ \t\r]*\n[ \t\r\n]*/)
    .filter((paragraph) => paragraph !== '')
    .map((paragraph) => `<p>${paragraph.replace(/\r?\n/g, '<br>')}</p>`)
    .join('\n');
}

// Characters of HTML: more than enough for the words of a preview.
const PREVIEW_SOURCE_LIMIT = 10_000;

/**
 * What inboxes show beside the subject: the beginning of the content instead of the title once more. It may
 * be hidden, as senders write a preheader.
 */
function preview(body: string, asHtml: boolean): string {
  const start = body.slice(0, PREVIEW_SOURCE_LIMIT);
  const text = asHtml ? htmlToText(start, 'hidden', { withHidden: true }) : body.trim();
  return text
    .slice(0, 500)
    .replace(/\s+/g, ' ')
    .slice(0, 140)
    .replace(/[\ud800-\udbff]$/, '')
    .trim();
}

function escapeHtml(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
}

const BUTTON_STYLE =
  'display:inline-block;padding:12px 24px;border-radius:6px;' +
  'background:#1a56db;color:#ffffff;text-decoration:none;font-weight:600';

function buttonHtml(href: string, prepared: PreparedEmail, language: Language): string {
  const link = `<a href="${escapeHtml(href)}" style="${BUTTON_STYLE}">${escapeHtml(language.texts.open)}</a>`;
  return `<p class="action"${languageOf(prepared, language)} style="margin:24px 0">${link}</p>`;
}

function footerHtml(
  links: readonly { url: string; label: string }[],
  prepared: PreparedEmail,
  language: Language,
): string {
  const shown = links.map(
    ({ url, label }) => `<a href="${escapeHtml(url)}" style="color:inherit">${escapeHtml(label)}</a>`,
  );
  const style = 'margin:32px 0 0;font-size:13px;color:#6b7280';
  return `<p class="footer"${languageOf(prepared, language)} style="${style}">${shown.join(' · ')}</p>`;
}

/** The attributes of a fixed text: a document of the sender may be in another language. */
function languageOf({ isDocument }: PreparedEmail, { lang, dir }: Language): string {
  return isDocument ? ` lang="${lang}" dir="${dir}"` : '';
}

/** The logo of the sender, or else its name. */
function senderHtml({ name, logoUrl }: Sender): string {
  if (name === null && logoUrl === null) return '';
  const label = escapeHtml(clean(name ?? ''));
  const logo = `<img src="${escapeHtml(logoUrl ?? '')}" alt="${label}" height="40" style="${LOGO_STYLE}">`;
  const shown = logoUrl === null ? `<bdi>${label}</bdi>` : logo;
  return `<p class="sender" style="margin:0 0 24px;font-weight:600">${shown}</p>\n`;
}

const LOGO_STYLE = 'height:40px;width:auto;border:0';

function previewHtml(preview: string): string {
  if (preview === '') return '';
  const text = escapeHtml(preview);
  return `<div style="display:none;max-height:0;overflow:hidden" aria-hidden="true">${text}</div>\n`;
}

const PAGE_STYLE =
  'max-width:600px;margin:0 auto;padding:24px;' +
  "font:16px/1.5 -apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif";

function frame(
  { subject, html, preview }: PreparedEmail,
  { language, sender, button }: { language: Language; sender: Sender; button: string },
): [before: string, after: string] {
  const title = escapeHtml(subject);
  return [
    `<!DOCTYPE html>
<html lang="${language.lang}" dir="${language.dir === 'rtl' ? 'rtl' : 'auto'}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="supported-color-schemes" content="light dark">
<title>${title}</title>
<style>
:root { color-scheme: light dark; }
img { max-width: 100%; height: auto; }
@media (prefers-color-scheme: dark) {
  body, .page { background: #111827 !important; color: #e5e7eb !important; }
  .footer { color: #9ca3af !important; }
}
</style>
</head>
<body style="margin:0;padding:0;background:#ffffff;color:#111827">
${previewHtml(preview)}<div class="page" role="article" aria-label="${title}" style="${PAGE_STYLE}">
${senderHtml(sender)}<h1 dir="auto" style="margin:0 0 16px;font-size:22px;line-height:1.3">${title}</h1>
<div dir="auto">
${html}
</div>
${button}`,
    `
</div>
</body>
</html>
`,
  ];
}
