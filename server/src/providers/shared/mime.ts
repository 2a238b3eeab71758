/**
 * Builds an e-mail as bytes: RFC 5322 headers, a text and an HTML part (RFC 2045). Built in one pass without
 * streams, because it is built for each recipient. The same input gives the same bytes, so that a retry sends
 * an identical message.
 */
import { createRequire } from 'node:module';
import { domainToASCII } from 'node:url';
import { LRUCache } from 'lru-cache';
import type MimeNode from 'nodemailer/lib/mime-node';
import type * as QuotedPrintable from 'nodemailer/lib/qp';
import { oneLine } from '../../lib/one-line.ts';
import { encodedWords, looksEncoded, neverEncoded } from './encoded-words.ts';

const require = createRequire(import.meta.url);
let nodemailer: { MimeNode: typeof MimeNode; quotedPrintable: typeof QuotedPrintable } | undefined;

/**
 * Returns the parts of nodemailer that build a message. Loaded with the first e-mail, because they take
 * memory; by `require`, because messages are built synchronously.
 */
function partsOfNodemailer(): NonNullable<typeof nodemailer> {
  nodemailer ??= {
    MimeNode: require('nodemailer/lib/mime-node'),
    quotedPrintable: require('nodemailer/lib/qp'),
  };
  return nodemailer;
}

type Mailbox = { email: string; name?: string };

type Mime = {
  messageId: string;
  /** Unique per message; the separator of the parts contains it. */
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
 * Returns the whole message with CRLF line ends. Line breaks in headers become spaces, so no value can inject
 * a header.
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
  // '=_' occurs in neither quoted-printable nor base64, so no content matches the boundary (RFC 2045, 6.7).
  const separator = `=_${boundary}`;
  const { MimeNode } = partsOfNodemailer();
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
  // Only addresses that need SMTPUTF8 contain UTF-8; all other bytes are ASCII.
  return Buffer.concat([
    Buffer.from(`${head.buildHeaders()}\r\n\r\n--${separator}\r\n`),
    ...part('plain', text),
    Buffer.from(`\r\n--${separator}\r\n`),
    ...part('html', html),
    Buffer.from(`\r\n--${separator}--\r\n`),
  ]);
}

/**
 * Whether the address is valid in an SMTP envelope: a local part without unquoted whitespace, a domain, and
 * no control character or angle bracket.
 */
export function isMailbox(email: string): boolean {
  const at = email.lastIndexOf('@');
  const blanks = !email.startsWith('"') && /\s/.test(email);
  return at > 0 && !blanks && !/[\p{Cc}<>]/u.test(email) && asciiDomain(email.slice(at + 1)) !== '';
}

/**
 * Returns `domainToASCII(domain)`, cached: most addresses share a few domains, and each e-mail needs three of
 * them.
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
 * Returns the address for the envelope: with an ASCII domain (RFC 5891), unless the local part needs
 * SMTPUTF8.
 */
export function withAsciiDomain(email: string): string {
  const at = email.lastIndexOf('@');
  return hasForeignLocalPart(email) ? email : email.slice(0, at + 1) + asciiDomain(email.slice(at + 1));
}

/** Whether only servers with SMTPUTF8 (RFC 6531) can deliver to the address. */
export function hasForeignLocalPart(email: string): boolean {
  return /[^\p{ASCII}]/u.test(email.slice(0, email.lastIndexOf('@')));
}

/** Encodes a subject that looks like an encoded word, which nodemailer would leave unchanged. */
function subjectValue(subject: string): string | { prepared: true; foldLines: true; value: string } {
  return looksEncoded(subject) ? { prepared: true, foldLines: true, value: encodedWords(subject) } : subject;
}

function address({ email, name = '' }: Mailbox): { name: string; address: string } {
  return { name: neverEncoded(oneLine(name).trim()), address: email };
}

/** The largest content in quoted-printable: above it, the 10 ms per megabyte outweigh a readable source. */
const READABLE_LIMIT = 64 * 1024;

function part(subtype: 'plain' | 'html', content: string): [head: Buffer, body: Buffer] {
  const bytes = withCrlf(Buffer.from(content));
  // Quoted-printable triples each non-ASCII byte; base64 adds a third to any content.
  const mostlyAscii = bytes.length - content.length < content.length / 5;
  const readable = mostlyAscii && bytes.length <= READABLE_LIMIT;
  const encoding = readable ? 'quoted-printable' : 'base64';
  const { encode, wrap } = partsOfNodemailer().quotedPrintable;
  const type = `Content-Type: text/${subtype}; charset=utf-8`;
  return [
    Buffer.from(`${type}\r\nContent-Transfer-Encoding: ${encoding}\r\n\r\n`),
    readable ? Buffer.from(wrap(encode(bytes))) : base64Lines(bytes),
  ];
}

const CR = 13;
const LF = 10;

/**
 * Returns the text with CRLF for each line break. Works on bytes, like the next function: replacing in
 * strings takes 5 to 25 times as long, up to half a second for content of 10 MB.
 */
function withCrlf(bytes: Buffer): Buffer {
  if (!bytes.includes(LF) && !bytes.includes(CR)) return bytes;
  const result = Buffer.allocUnsafe(2 * bytes.length);
  let length = 0;
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at] as number;
    if (byte === CR || (byte === LF && bytes[at - 1] !== CR)) {
      result[length++] = CR;
      result[length++] = LF;
    } else if (byte !== LF) result[length++] = byte;
  }
  return result.subarray(0, length);
}

const LINE_CHARS = 76; // RFC 2045, section 6.8

function base64Lines(bytes: Buffer): Buffer {
  const encoded = Buffer.from(bytes.toString('base64'), 'latin1');
  const lines = Math.floor(encoded.length / LINE_CHARS);
  const result = Buffer.allocUnsafe(encoded.length + 2 * lines);
  for (let line = 0, end = 0; line < lines; line += 1, end += 2) {
    const start = line * LINE_CHARS;
    end += encoded.copy(result, end, start, start + LINE_CHARS);
    result[end] = CR;
    result[end + 1] = LF;
  }
  encoded.copy(result, lines * (LINE_CHARS + 2), lines * LINE_CHARS);
  return result;
}
