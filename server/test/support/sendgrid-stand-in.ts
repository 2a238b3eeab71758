/** SendGrid for tests: HTTP on loopback. It checks requests as SendGrid documents. */
import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { type HttpStandIn, startHttpStandIn, type VendorReply } from './http-stand-in.ts';

type Members = Readonly<Record<string, unknown>>;

export interface SendGridStandIn extends HttpStandIn {
  /** The accepted mails, in order, with their ids. */
  mails: { id: string; headers: IncomingMessage['headers']; mail: Members }[];
  /** The scopes of the key. */
  scopes: string[];
  /** Replies to the next requests with these. */
  reply(...replies: VendorReply[]): void;
}

/** Accepts mails with this key from verified senders. */
export async function startSendGridStandIn({
  apiKey,
  verified,
}: {
  apiKey: string;
  verified: readonly string[];
}): Promise<SendGridStandIn> {
  const replies: VendorReply[] = [];

  function replyTo({ method, url, headers }: IncomingMessage, text: string): VendorReply {
    if (headers.authorization !== `Bearer ${apiKey}`)
      return refusal(401, 'The provided authorization grant is invalid, expired, or revoked');
    if (method === 'GET' && url === '/v3/scopes') return { status: 200, body: { scopes: standIn.scopes } };
    if (url !== '/v3/mail/send') return refusal(404, 'Not Found');
    if (method !== 'POST') return refusal(405, 'method not allowed');
    if (!standIn.scopes.includes('mail.send')) return refusal(403, 'access forbidden');
    if (!/^application\/json\b/.test(headers['content-type'] ?? ''))
      return refusal(415, 'Content-Type should be application/json.');
    const mail = membersIn(text);
    if (mail === undefined) return refusal(400, 'Bad Request');
    const problem = problemOf(mail);
    if (problem !== undefined) return refusal(400, ...problem);
    if (!verified.includes(String(membersOf(mail.from).email)))
      return refusal(403, 'The from address does not match a verified Sender Identity.', 'from');
    const id = randomUUID();
    standIn.mails.push({ id, headers, mail });
    return { status: 202, headers: { 'x-message-id': id }, body: '' };
  }

  const server = await startHttpStandIn(
    (request, body) => replies.shift() ?? replyTo(request, body.toString()),
  );
  const standIn: SendGridStandIn = {
    ...server,
    mails: [],
    scopes: ['mail.send'],
    reply: (...given) => replies.push(...given),
  };
  return standIn;
}

/** An error in the format of SendGrid. */
export function refusal(status: number, message: string, field: string | null = null): VendorReply {
  return { status, body: { errors: [{ message, field, help: null }] } };
}

type Problem = [message: string, field: string];

const MEMBERS = new Set(
  (
    'personalizations from reply_to reply_to_list subject content attachments template_id headers ' +
    'categories custom_args send_at batch_id asm ip_pool_name mail_settings tracking_settings'
  ).split(' '),
);
const PERSONALIZATION_MEMBERS = new Set(
  'from to cc bcc subject headers substitutions dynamic_template_data custom_args send_at'.split(' '),
);
const RESERVED = new Set(
  (
    'x-sg-id x-sg-eid received dkim-signature content-type content-transfer-encoding to from subject ' +
    'reply-to cc bcc'
  ).split(' '),
);
const ADDRESS = /^[^\s@<>",]+@[a-z\d-]+(\.[a-z\d-]+)+$/i;

function problemOf(mail: Members): Problem | undefined {
  const { personalizations, from, reply_to, subject, template_id } = mail;
  if (!isList(personalizations) || personalizations.length === 0 || personalizations.length > 1000)
    return ['The personalizations field is required.', 'personalizations'];
  return (
    unknownIn(mail, MEMBERS, '') ??
    firstOf(personalizations, (one, index) => problemOfPersonalization(one, `personalizations.${index}`)) ??
    problemOfAddress(from, 'from') ??
    (reply_to === undefined ? undefined : problemOfAddress(reply_to, 'reply_to')) ??
    (template_id === undefined && !isText(subject) ? ['The subject is required.', 'subject'] : undefined) ??
    problemOfContent(mail) ??
    problemOfTexts(mail.headers, 'headers') ??
    firstOf(Object.keys(membersOf(mail.headers)), (name) =>
      RESERVED.has(name.toLowerCase()) ? ['It is a reserved header.', `headers.${name}`] : undefined,
    ) ??
    problemOfTexts(mail.custom_args, 'custom_args')
  );
}

function problemOfPersonalization(one: unknown, path: string): Problem | undefined {
  const { to, cc = [], bcc = [], custom_args } = membersOf(one);
  if (!isList(to) || to.length === 0) return ['The to array is required.', `${path}.to`];
  const unknown = unknownIn(membersOf(one), PERSONALIZATION_MEMBERS, `${path}.`);
  if (unknown !== undefined) return unknown;
  for (const [name, list] of Object.entries({ to, cc, bcc })) {
    if (!isList(list)) return ['Invalid type. Expected: array.', `${path}.${name}`];
    const wrong = firstOf(list, (address, index) => problemOfAddress(address, `${path}.${name}.${index}`));
    if (wrong !== undefined) return wrong;
  }
  return problemOfTexts(custom_args, `${path}.custom_args`);
}

/** `name` is missing or a string, never null. */
function problemOfAddress(address: unknown, path: string): Problem | undefined {
  const { email, name = '' } = membersOf(address);
  if (!isText(email) || !ADDRESS.test(email)) return ['Does not contain a valid address.', `${path}.email`];
  if (typeof name !== 'string') return ['Invalid type. Expected: string.', `${path}.name`];
  return unknownIn(membersOf(address), new Set(['email', 'name']), `${path}.`);
}

/** Plain text must come before HTML, and neither may be empty. */
function problemOfContent({ content, template_id }: Members): Problem | undefined {
  if (content === undefined && isText(template_id)) return undefined;
  if (!isList(content) || content.length === 0) return ['The content parameter is required.', 'content'];
  const types = content.map((part) => String(membersOf(part).type));
  if (types.indexOf('text/plain') > 0) return ['text/plain must be the first.', 'content'];
  return firstOf(content, (part, index) => {
    const { type, value } = membersOf(part);
    if (!isText(type)) return ['The content type is required.', `content.${index}.type`];
    if (!isText(value)) return ['The content value must not be empty.', `content.${index}.value`];
    return unknownIn(membersOf(part), new Set(['type', 'value']), `content.${index}.`);
  });
}

/** Headers and custom arguments may have only strings, of at most 10,000 bytes together. */
function problemOfTexts(given: unknown, path: string): Problem | undefined {
  if (given === undefined) return undefined;
  if (typeof given !== 'object' || given === null || isList(given))
    return ['Invalid type. Expected: object.', path];
  if (Buffer.byteLength(JSON.stringify(given)) > 10_000) return ['It is longer than 10000 bytes.', path];
  return firstOf(Object.entries(given), ([name, value]) =>
    typeof value === 'string' ? undefined : ['Invalid type. Expected: string.', `${path}.${name}`],
  );
}

function unknownIn(members: Members, known: ReadonlySet<string>, path: string): Problem | undefined {
  const name = Object.keys(members).find((one) => !known.has(one));
  return name === undefined ? undefined : [`Additional property ${name} is not allowed`, `${path}${name}`];
}

function firstOf<Item>(
  items: readonly Item[],
  problemIn: (item: Item, index: number) => Problem | undefined,
): Problem | undefined {
  for (const [index, item] of items.entries()) {
    const problem = problemIn(item, index);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

function membersIn(text: string): Members | undefined {
  try {
    return membersOf(JSON.parse(text));
  } catch {
    return undefined;
  }
}

function membersOf(value: unknown): Members {
  return typeof value === 'object' && value !== null && !isList(value) ? (value as Members) : {};
}

function isList(value: unknown): value is unknown[] {
  return Array.isArray(value);
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}
