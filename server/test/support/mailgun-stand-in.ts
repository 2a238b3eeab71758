/** Mailgun for tests: HTTP on loopback. It checks requests as Mailgun documents. */
import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { type HttpStandIn, startHttpStandIn, type VendorReply } from './http-stand-in.ts';

export interface MailgunStandIn extends HttpStandIn {
  /** The accepted mails, in order, with their fields and ids. */
  mails: { id: string; headers: IncomingMessage['headers']; fields: [name: string, value: string][] }[];
  /** The state of the domain: `active` unless a test changes it. */
  state: string;
  /** Replies to the next requests with these. */
  reply(...replies: VendorReply[]): void;
}

/** Accepts mails of one domain with this key. */
export async function startMailgunStandIn({
  apiKey,
  domain,
}: {
  apiKey: string;
  domain: string;
}): Promise<MailgunStandIn> {
  const replies: VendorReply[] = [];

  async function replyTo({ method, url, headers }: IncomingMessage, body: Buffer): Promise<VendorReply> {
    if (headers.authorization !== `Basic ${Buffer.from(`api:${apiKey}`).toString('base64')}`)
      return { status: 401, headers: { 'content-type': 'text/plain' }, body: 'Forbidden' };
    const [, requested] = /^\/v[34]\/domains\/([^/]+)$/.exec(url ?? '') ?? [];
    if (method === 'GET' && requested !== undefined)
      return decodeURIComponent(requested) === domain
        ? { status: 200, body: { domain: { name: domain, state: standIn.state } } }
        : mailgunError(404, 'Domain not found');
    const [, from] = /^\/v3\/([^/]+)\/messages$/.exec(url ?? '') ?? [];
    if (method !== 'POST' || from === undefined) return mailgunError(404, 'Not Found');
    if (decodeURIComponent(from) !== domain) return mailgunError(404, `Domain not found: ${from}`);
    if (standIn.state !== 'active') return mailgunError(403, `Domain ${domain} is not allowed to send`);
    const fields = await fieldsOf(headers['content-type'] ?? '', body);
    const problem = fields === undefined ? 'the form cannot be read' : problemOf(fields);
    if (fields === undefined || problem !== undefined) return mailgunError(400, problem ?? '');
    const id = `${randomUUID()}@${domain}`;
    standIn.mails.push({ id, headers, fields });
    return { status: 200, body: { id: `<${id}>`, message: 'Queued. Thank you.' } };
  }

  const server = await startHttpStandIn((request, body) => replies.shift() ?? replyTo(request, body));
  const standIn: MailgunStandIn = {
    ...server,
    mails: [],
    state: 'active',
    reply: (...given) => replies.push(...given),
  };
  return standIn;
}

/** An error in the format of Mailgun. */
export function mailgunError(status: number, message: string): VendorReply {
  return { status, body: { message } };
}

/** The fields of a form in either encoding. A file has only its name. */
async function fieldsOf(type: string, body: Buffer): Promise<[string, string][] | undefined> {
  try {
    const form = await new Response(new Uint8Array(body), { headers: { 'content-type': type } }).formData();
    return [...form].map(([name, value]) => [name, typeof value === 'string' ? value : value.name]);
  } catch {
    return undefined;
  }
}

const MAILBOX = /^(?:"(?:[^"\\]|\\.)*"\s*<([^<>]+)>|[^<>",]*<([^<>]+)>|([^<>",]+))$/;
const ADDRESS = /^[^\s@<>",]+@[a-z\d-]+(\.[a-z\d-]+)+$/i;
const CONTENT = new Set(['text', 'html', 'amp-html', 'template']);
const MEMBERS =
  /^(?:from|to|cc|bcc|subject|text|html|amp-html|attachment|inline|template|recipient-variables)$/;
const OPTIONS = new Set(
  (
    'tag dkim secondary-dkim secondary-dkim-public deliverytime deliverytime-optimize-period ' +
    'time-zone-localize testmode tracking tracking-clicks tracking-opens require-tls skip-verification ' +
    'sending-ip sending-ip-pool tracking-pixel-location-top archive-to suppress-headers'
  )
    .split(' ')
    .map((name) => `o:${name}`),
);
const MAX_BYTES_OF_OPTIONS = 16 * 1024;

function problemOf(fields: readonly [string, string][]): string | undefined {
  const all = (wanted: string) => fields.flatMap(([name, value]) => (name === wanted ? [value] : []));
  for (const name of ['from', 'to']) {
    if (all(name).length === 0) return `${name} parameter is missing`;
    if (!all(name).every(isMailbox))
      return `${name} parameter is not a valid address. please check documentation`;
  }
  if (all('from').length > 1) return 'from parameter is given more than once';
  if (!fields.some(([name, value]) => CONTENT.has(name) && value !== ''))
    return "Need at least one of 'text', 'html', 'amp-html' or 'template' parameters specified";
  const unknown = fields.find(
    ([name]) => !MEMBERS.test(name) && !OPTIONS.has(name) && !/^[hvt]:[\w-]+$/.test(name),
  );
  if (unknown !== undefined) return `${unknown[0]} parameter is not known`;
  const yesOrNo = fields.find(
    ([name, value]) => /^o:(?:testmode|require-tls|skip-verification)$/.test(name) && !BOOLEAN.test(value),
  );
  if (yesOrNo !== undefined) return `${yesOrNo[0]} parameter must be one of: yes, no, true, false`;
  const options = fields.filter(([name]) => /^[ohv]:/.test(name));
  return options.reduce((sum, [name, value]) => sum + Buffer.byteLength(name + value), 0) >
    MAX_BYTES_OF_OPTIONS
    ? 'o:, h:, v: and t: parameters are too long together'
    : undefined;
}

const BOOLEAN = /^(?:yes|no|true|false)$/;

function isMailbox(text: string): boolean {
  const [, quoted, bare, alone] = MAILBOX.exec(text) ?? [];
  return ADDRESS.test((quoted ?? bare ?? alone ?? '').trim());
}
