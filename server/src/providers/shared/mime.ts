/**
 * An e-mail as bytes: RFC 5322 headers, a text and an HTML part (RFC 2045). Made in one go and without
 * streams, as it is made once for each recipient. The same input gives the same bytes, so that a repeat is a
 * true copy.
 */
import { domainToASCII } from 'node:url';
import { LRUCache } from 'lru-cache';
import { oneLine } from '../../lib/one-line.ts';
import { nodemailer } from '../smtp/nodemailer.ts';
import { encodedWords, looksEncoded, neverEncoded } from './encoded-words.ts';

type Mailbox = { email: string; name?: string };

type Mime = {
  messageId: string;
  /** Unique to the message; what makes the boundary between its parts. */
  boundary: string;
  date: Date;
  from: Mailbox;
  to: Mailbox;
  replyTo?: Mailbox;
  subject: string;
  headers: Readonly<Record<string, string>>;
  text: string;
  html: string;
};

/**
 * The whole message with CRLF line ends. No value can smuggle in a header: line breaks in headers become
 * spaces.
 */
export function buildMime({
  messageId,
  boundary,
  date,
  from,
  to,
  replyTo,
  subject,
  headers,
  text,
  html,
}: Mime): Buffer {
  // '=_' occurs neither in quoted-printable nor in base64, so no content can look like the boundary (RFC
  // 2045, 6.7).
  const separator = `=_${boundary}`;
  const { MimeNode } = nodemailer();
  const head = new MimeNode(`multipart/alternative; boundary="${separator}"`);
  head.setHeader([
    { key: 'From', value: address(from) },
    { key: 'To', value: address(to) },
    ...(replyTo === undefined ? [] : [{ key: 'Reply-To', value: address(replyTo) }]),
    { key: 'Subject', value: subjectValue(oneLine(subject).trim()) },
    { key: 'Message-ID', value: messageId },
    { key: 'Date', value: date },
    ...Object.entries(headers).map(([key, value]) => ({ key, value: oneLine(value).trim() })),
  ]);
  const parts = [part('plain', text), part('html', html)];
  // UTF-8 only ever shows in the header lines of addresses that need SMTPUTF8; all else is ASCII.
  return Buffer.from(
    `${head.buildHeaders()}\r\n\r\n--${separator}\r\n${parts.join(`\r\n--${separator}\r\n`)}\r\n--${separator}--\r\n`,
  );
}

/**
 * Whether this can stand in an envelope: a local part without blanks unless quoted, a domain, nothing that
 * ends the line or the path.
 */
export function isMailbox(email: string): boolean {
  const at = email.lastIndexOf('@');
  const blanks = !email.startsWith('"') && /\s/.test(email);
  return at > 0 && !blanks && !/[\p{Cc}<>]/u.test(email) && asciiDomain(email.slice(at + 1)) !== '';
}

/**
 * `domainToASCII`, remembered: few domains have nearly all addresses, and each is asked for three times an
 * e-mail.
 */
function asciiDomain(domain: string): string {
  const known = asciiDomains.get(domain);
  if (known !== undefined) return known;
  const ascii = domainToASCII(domain);
  if (domain.length < 256) asciiDomains.set(domain, ascii);
  return ascii;
}

const asciiDomains = new LRUCache<string, string>({ max: 1_000 });

/**
 * The address as the envelope has it: the domain in ASCII (RFC 5891), unless the local part needs SMTPUTF8
 * anyway.
 */
export function withAsciiDomain(email: string): string {
  const at = email.lastIndexOf('@');
  return hasForeignLocalPart(email) ? email : email.slice(0, at + 1) + asciiDomain(email.slice(at + 1));
}

/** Whether the address can only be written to by servers that speak SMTPUTF8 (RFC 6531). */
export function hasForeignLocalPart(email: string): boolean {
  return /[^\p{ASCII}]/u.test(email.slice(0, email.lastIndexOf('@')));
}

/** nodemailer encodes what is not ASCII, and leaves as it is what only looks encoded. */
function subjectValue(subject: string): string | { prepared: true; foldLines: true; value: string } {
  return looksEncoded(subject) ? { prepared: true, foldLines: true, value: encodedWords(subject) } : subject;
}

function address({ email, name = '' }: Mailbox): { name: string; address: string } {
  return { name: neverEncoded(oneLine(name).trim()), address: email };
}

/**
 * Above this, quoted-printable's 10 ms per megabyte and its line search are not worth being readable in the
 * source view.
 */
const READABLE_LIMIT = 64 * 1024;

function part(subtype: 'plain' | 'html', content: string): string {
  const bytes = Buffer.from(content.replace(/\r\n?|\n/g, '\r\n'));
  // Quoted-printable triples every byte of another script; base64 adds a third to anything.
  const mostlyAscii = bytes.length - content.length < content.length / 5;
  const readable = mostlyAscii && bytes.length <= READABLE_LIMIT;
  const encoding = readable ? 'quoted-printable' : 'base64';
  const { encode, wrap } = nodemailer().quotedPrintable;
  const body = readable ? wrap(encode(bytes)) : bytes.toString('base64').replace(/.{76}/g, '$&\r\n');
  return `Content-Type: text/${subtype}; charset=utf-8\r\nContent-Transfer-Encoding: ${encoding}\r\n\r\n${body}`;
}
