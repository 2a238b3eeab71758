/**
 * A notification as an e-mail. `prepareEmail` does the work that is the same for all recipients of a
 * broadcast, once. `finishEmail` adds what differs: the unsubscribe link and tracked links. That costs a
 * concatenation and the signatures of the links.
 *
 * Content is HTML by contract, and is used as the sender wrote it. Many senders write plain text: content
 * without any known HTML element or character reference is escaped, and keeps its line breaks. A whole HTML
 * document is the sender's own design: only the button and the footer are added, at its end.
 */

import type { TrackedLinks } from '../../ground/links/links.ts';
import { clean, htmlToText, looksLikeHtml } from './plain-text.ts';
import { type CutHtml, cutAtLinks, fill, pictureHtml } from './tracked.ts';

/** What all recipients of a broadcast have in common. */
export type EmailContent = {
  title: string;
  content: string | null;
  actionUrl: string | null;
  /** Language of the frame around the content, a BCP 47 tag; `en` if not given. */
  lang?: string;
};

/** An e-mail without the unsubscribe link, to be kept while a broadcast is being delivered. */
export type PreparedEmail = {
  subject: string;
  htmlBefore: string;
  htmlAfter: string;
  text: string;
};

/**
 * Does everything that is the same for every recipient. Pure, and linear in the content whatever is in it.
 */
export function prepareEmail({ title, content, actionUrl, lang = 'en' }: EmailContent): PreparedEmail {
  const subject = clean(title).replace(/\s+/g, ' ').trim();
  const body = clean(content ?? '');
  const link = safeLink(actionUrl);
  const asHtml = looksLikeHtml(body);
  const text = asHtml ? htmlToText(body, 'shown') : body.trim();
  const button = link === undefined ? '' : buttonHtml(link);
  const [htmlBefore, htmlAfter] =
    asHtml && isDocument(body)
      ? intoDocument(body, button)
      : frame({
          subject,
          lang,
          content: asHtml ? body : textToHtml(body),
          preview: preview(body, asHtml),
          button,
        });
  return { subject, htmlBefore, htmlAfter, text: [text, link].filter(Boolean).join('\n\n') };
}

/** The e-mail for one recipient. */
export function finishEmail(
  prepared: PreparedEmail,
  { unsubscribeUrl, tracked }: { unsubscribeUrl?: string | undefined; tracked?: TrackedLinks } = {},
): { subject: string; html: string; text: string } {
  const { subject, text } = prepared;
  const [before, after] = filled(prepared, tracked);
  const picture = tracked?.openUrl === undefined ? '' : pictureHtml(tracked.openUrl());
  if (unsubscribeUrl === undefined) return { subject, html: before + picture + after, text };
  return {
    subject,
    html: before + footerHtml(unsubscribeUrl) + picture + after,
    // Mail programs recognize the end of a message by '-- '.
    text: `${text}\n\n-- \nUnsubscribe: ${unsubscribeUrl}\n`,
  };
}

/** E-mails cut at their links: done for the first recipient whose links are tracked. */
const cuts = new WeakMap<PreparedEmail, [CutHtml, CutHtml]>();

function filled(
  prepared: PreparedEmail,
  { publicUrl, clickUrl }: Partial<TrackedLinks> = {},
): [before: string, after: string] {
  const { htmlBefore, htmlAfter } = prepared;
  if (publicUrl === undefined || clickUrl === undefined) return [htmlBefore, htmlAfter];
  const cut = cuts.get(prepared) ?? cutAtLinks([htmlBefore, htmlAfter], publicUrl);
  cuts.set(prepared, cut);
  return [fill(cut[0], clickUrl), fill(cut[1], clickUrl)];
}

/** The headers of a notification's e-mail that do not depend on the provider (RFC 2369, 8058, 3834). */
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
    ...(unsubscribeUrl === undefined
      ? {}
      : { 'List-Unsubscribe': `<${unsubscribeUrl}>`, 'List-Unsubscribe-Post': 'List-Unsubscribe=One-Click' }),
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
function safeLink(actionUrl: string | null): string | undefined {
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

function textToHtml(text: string): string {
  return text
    .trim()
    .split(/\r?\n(?:[ \t]*\r?\n)+/)
    .filter((paragraph) => paragraph !== '')
    .map((paragraph) => `<p>${escapeHtml(paragraph).replace(/\r?\n/g, '<br>')}</p>`)
    .join('\n');
}

// Characters of HTML: more than enough for the words of a preview.
const PREVIEW_SOURCE_LIMIT = 10_000;

/** What inboxes show beside the subject: the beginning of the content instead of the title once more. */
function preview(body: string, asHtml: boolean): string {
  const text = asHtml ? htmlToText(body.slice(0, PREVIEW_SOURCE_LIMIT), 'hidden') : body.trim();
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

function buttonHtml(href: string): string {
  const link = `<a href="${escapeHtml(href)}" style="${BUTTON_STYLE}">Open</a>`;
  return `<p class="action" style="margin:24px 0">${link}</p>`;
}

function footerHtml(unsubscribeUrl: string): string {
  const link = `<a href="${escapeHtml(unsubscribeUrl)}" style="color:inherit">Unsubscribe</a>`;
  return `<p class="footer" style="margin:32px 0 0;font-size:13px;color:#6b7280">${link}</p>`;
}

function previewHtml(preview: string): string {
  if (preview === '') return '';
  const text = escapeHtml(preview);
  return `<div style="display:none;max-height:0;overflow:hidden" aria-hidden="true">${text}</div>\n`;
}

const PAGE_STYLE =
  'max-width:600px;margin:0 auto;padding:24px;' +
  "font:16px/1.5 -apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif";

function frame({
  subject,
  lang,
  content,
  preview,
  button,
}: {
  subject: string;
  lang: string;
  content: string;
  preview: string;
  button: string;
}): [before: string, after: string] {
  const title = escapeHtml(subject);
  return [
    `<!DOCTYPE html>
<html lang="${escapeHtml(lang)}" dir="auto">
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
<h1 dir="auto" style="margin:0 0 16px;font-size:22px;line-height:1.3">${title}</h1>
<div dir="auto">
${content}
</div>
${button}`,
    `
</div>
</body>
</html>
`,
  ];
}
