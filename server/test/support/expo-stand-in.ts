/** Expo's push service for tests: HTTP on loopback, which checks requests as Expo says that it does. */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gunzipSync } from 'node:zlib';
import { type Outages, outagesOf } from './outage.ts';

type Message = Record<string, unknown>;
type Answer = { status: number; headers?: Record<string, string>; body: unknown };

export type ExpoStandIn = {
  address: string;
  /** The messages of each request that came, in order, whatever was answered. */
  requests: { headers: IncomingMessage['headers']; messages: Message[] }[];
  /** Those that were taken, in order. */
  messages: Message[];
  /** The most requests that were under way at once. */
  most: number;
  /** From now on, the ticket for this device is this error. */
  fail(to: string, error: string, message?: string): void;
  /** This device belongs to another project. */
  project(to: string, name: string): void;
  /** What became of a push, by the id on its ticket; who asks before is told nothing. */
  receipts: Map<string, object>;
  /** The ids of each request for receipts. */
  asked: string[][];
  /** The ids on the tickets, in the order of `messages`. */
  tickets: string[];
  /** Answers the next requests so. */
  answer(...answers: Answer[]): void;
  outages: Outages;
  stop(): Promise<void>;
};

const TOKEN = /^(ExponentPushToken\[.+\]|ExpoPushToken\[.+\]|[a-z\d]{8}(-[a-z\d]{4}){3}-[a-z\d]{12})$/;
const RECEIPTS_PATH = '/--/api/v2/push/getReceipts';
const MEMBERS = new Set(
  (
    'to data title subtitle body sound ttl expiration priority interruptionLevel badge channelId icon richContent ' +
    'categoryId mutableContent collapseId tag _contentAvailable'
  ).split(' '),
);

/** Takes pushes from those who have the access token. */
export async function startExpoStandIn({ accessToken }: { accessToken: string }): Promise<ExpoStandIn> {
  const failures = new Map<string, { error: string; message: string }>();
  const projects = new Map<string, string>();
  const answers: Answer[] = [];
  let open = 0;

  function answerTo(messages: Message[]): Answer {
    if (messages.length > 100) return refusal('PUSH_TOO_MANY_NOTIFICATIONS', 'Too many');
    for (const [index, message] of messages.entries()) {
      const unknown = Object.keys(message).find((name) => !MEMBERS.has(name));
      if (unknown !== undefined) return refusal('VALIDATION_ERROR', `"[${index}].${unknown}" is not allowed`);
      if (!TOKEN.test(String(message.to)))
        return refusal('VALIDATION_ERROR', `"[${index}].to" is not a push token`);
    }
    const groups = Map.groupBy(
      messages.map(({ to }) => String(to)),
      (to) => projects.get(to) ?? '@shop/app',
    );
    if (groups.size > 1)
      return refusal('PUSH_TOO_MANY_EXPERIENCE_IDS', 'Too many projects', Object.fromEntries(groups));
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

  function receiptsFor(ids: string[]): Answer {
    if (ids.length === 0 || ids.length > 1000) return refusal('VALIDATION_ERROR', '"ids" is not allowed');
    const known = ids.flatMap((id) => (standIn.receipts.has(id) ? [[id, standIn.receipts.get(id)]] : []));
    return { status: 200, body: { data: Object.fromEntries(known) } };
  }

  const server = createServer(async (request, response) => {
    open += 1;
    standIn.most = Math.max(standIn.most, open);
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const raw = Buffer.concat(chunks);
    const text = request.headers['content-encoding'] === 'gzip' ? gunzipSync(raw) : raw;
    const given = JSON.parse(text.toString()) as Message | Message[];
    const asking = request.url === RECEIPTS_PATH;
    const ids = asking ? ((given as Message).ids as string[]) : [];
    const messages = asking ? [] : [given].flat();
    if (asking) standIn.asked.push(ids);
    else standIn.requests.push({ headers: request.headers, messages });
    const { status, headers, body } =
      request.headers.authorization === `Bearer ${accessToken}`
        ? (answers.shift() ?? (asking ? receiptsFor(ids) : answerTo(messages)))
        : { status: 401, headers: {}, body: { errors: [{ code: 'UNAUTHORIZED', message: 'Who are you?' }] } };
    open -= 1;
    response.writeHead(asking || request.url === '/--/api/v2/push/send' ? status : 404, {
      'content-type': 'application/json',
      ...headers,
    });
    response.end(typeof body === 'string' ? body : JSON.stringify(body));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const standIn: ExpoStandIn = {
    address: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests: [],
    messages: [],
    most: 0,
    receipts: new Map(),
    asked: [],
    tickets: [],
    fail: (to, error, message = error) => failures.set(to, { error, message }),
    project: (to, name) => projects.set(to, name),
    answer: (...given) => answers.push(...given),
    outages: outagesOf(server),
    async stop() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
  return standIn;
}

function refusal(code: string, message: string, details?: object): Answer {
  return { status: 400, body: { errors: [{ code, message, details }] } };
}
