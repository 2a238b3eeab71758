/** Expo's push service for tests: HTTP on loopback. It checks requests as Expo documents. */
import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { setTimeout } from 'node:timers/promises';
import { gunzipSync } from 'node:zlib';
import { type HttpStandIn, startHttpStandIn, type VendorReply } from './http-stand-in.ts';

type Message = Record<string, unknown>;

export type ExpoStandIn = HttpStandIn & {
  /** The messages of each request, in order, accepted or not. */
  requests: { headers: IncomingMessage['headers']; messages: Message[] }[];
  /** The accepted messages, in order. */
  messages: Message[];
  /** From now on, messages to this device get a ticket with this error. */
  fail(to: string, error: string, message?: string): void;
  /** Assigns a device to a project. */
  project(to: string, name: string): void;
  /** The receipts by the id of their ticket. Others are not ready yet. */
  receipts: Map<string, object>;
  /** The ids in each request for receipts. */
  receiptRequests: string[][];
  /** How long each response takes. */
  latencyMs: number;
  /** The ids on the tickets, in the order of `messages`. */
  tickets: string[];
  /** Replies to the next requests with these. */
  reply(...replies: VendorReply[]): void;
};

const TOKEN = /^(ExponentPushToken\[.+\]|ExpoPushToken\[.+\]|[a-z\d]{8}(-[a-z\d]{4}){3}-[a-z\d]{12})$/;
const RECEIPTS_PATH = '/--/api/v2/push/getReceipts';
const MEMBERS = new Set(
  (
    'to data title subtitle body sound ttl expiration priority interruptionLevel badge channelId icon ' +
    'richContent categoryId mutableContent collapseId tag _contentAvailable'
  ).split(' '),
);

/** Accepts pushes with this access token. */
export async function startExpoStandIn({ accessToken }: { accessToken: string }): Promise<ExpoStandIn> {
  const failures = new Map<string, { error: string; message: string }>();
  const projects = new Map<string, string>();
  const replies: VendorReply[] = [];

  function replyTo(messages: Message[]): VendorReply {
    if (messages.length > 100) return rejection('PUSH_TOO_MANY_NOTIFICATIONS', 'Too many');
    for (const [index, message] of messages.entries()) {
      const unknown = Object.keys(message).find((name) => !MEMBERS.has(name));
      if (unknown !== undefined)
        return rejection('VALIDATION_ERROR', `"[${index}].${unknown}" is not allowed`);
      if (!TOKEN.test(String(message.to)))
        return rejection('VALIDATION_ERROR', `"[${index}].to" is not a push token`);
    }
    const groups = Map.groupBy(
      messages.map(({ to }) => String(to)),
      (to) => projects.get(to) ?? '@shop/app',
    );
    if (groups.size > 1)
      return rejection('PUSH_TOO_MANY_EXPERIENCE_IDS', 'Too many projects', Object.fromEntries(groups));
    return { status: 200, body: { data: messages.map(ticketFor) } };
  }

  function ticketFor(message: Message): object {
    const { to, ...rest } = message;
    const tooBig = Buffer.byteLength(JSON.stringify(rest)) > 4096;
    const failure = tooBig
      ? { error: 'MessageTooBig', message: 'The message was too big' }
      : failures.get(String(to));
    if (failure !== undefined)
      return { status: 'error', message: failure.message, details: { error: failure.error } };
    standIn.messages.push(message);
    const id = randomUUID();
    standIn.tickets.push(id);
    return { status: 'ok', id };
  }

  function receiptsFor(ids: string[]): VendorReply {
    if (ids.length === 0 || ids.length > 1000) return rejection('VALIDATION_ERROR', '"ids" is not allowed');
    const known = ids.flatMap((id) => (standIn.receipts.has(id) ? [[id, standIn.receipts.get(id)]] : []));
    return { status: 200, body: { data: Object.fromEntries(known) } };
  }

  const server = await startHttpStandIn(async ({ url, headers }, raw) => {
    await setTimeout(standIn.latencyMs);
    const text = headers['content-encoding'] === 'gzip' ? gunzipSync(raw) : raw;
    const given = JSON.parse(text.toString()) as Message | Message[];
    const isForReceipts = url === RECEIPTS_PATH;
    const ids = isForReceipts ? ((given as Message).ids as string[]) : [];
    const messages = isForReceipts ? [] : [given].flat();
    if (isForReceipts) standIn.receiptRequests.push(ids);
    else standIn.requests.push({ headers, messages });
    const reply =
      headers.authorization === `Bearer ${accessToken}`
        ? (replies.shift() ?? (isForReceipts ? receiptsFor(ids) : replyTo(messages)))
        : { status: 401, body: { errors: [{ code: 'UNAUTHORIZED', message: 'Who are you?' }] } };
    return isForReceipts || url === '/--/api/v2/push/send' ? reply : { ...reply, status: 404 };
  });
  const standIn: ExpoStandIn = {
    ...server,
    latencyMs: 0,
    requests: [],
    messages: [],
    receipts: new Map(),
    receiptRequests: [],
    tickets: [],
    fail: (to, error, message = error) => failures.set(to, { error, message }),
    project: (to, name) => projects.set(to, name),
    reply: (...given) => replies.push(...given),
  };
  return standIn;
}

function rejection(code: string, message: string, details?: object): VendorReply {
  return { status: 400, body: { errors: [{ code, message, details }] } };
}
