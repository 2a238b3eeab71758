import { promisify } from 'node:util';
import { constants, gzip } from 'node:zlib';
import { Batcher } from '../../lib/batcher.ts';
import { waitMs } from '../../lib/wait.ts';
import type { Sender, SendOutcome } from '../provider.ts';
import { closing, concealed } from '../shared/http-sender.ts';
import type { Endpoint, HttpResult } from '../shared/transport.ts';
import { hiderOf, objectIn } from '../shared/vendor-words.ts';

/** Messages of one project. */
export const PER_SECOND = 600;

/** A message as Expo has it. */
export type ExpoMessage = { [member: string]: unknown } & { to: string };

/** What came of a message: the ticket of one that Expo has taken is its id alone. */
export type ExpoReply = HttpResult & { ticketId?: string };

const MAX_MESSAGES = 100; // in one request
const LINGER_MS = 50; // what a message waits for others at most
const MAX_REQUESTS = 6; // at the same time, as Expo asks
const GZIP_FROM_BYTES = 1024;

const zip = promisify(gzip);
/** Messages of one request resemble one another so much that more effort saves next to no bytes. */
const EFFORT = { level: constants.Z_BEST_SPEED };

/**
 * Sends messages together, and resolves each as if it had been sent alone. A request that is refused because
 * of some of its messages is sent again in parts, so that the others get through: as Expo says they belong
 * together, else in halves.
 */
export function createExpoBatches(
  endpoint: Pick<Endpoint, 'request'>,
  accessToken: string,
  classify: (reply: ExpoReply) => SendOutcome,
): Pick<Sender<ExpoMessage>, 'send' | 'close'> {
  const conceal = hiderOf([accessToken]);
  const batcher = new Batcher<ExpoMessage, SendOutcome>({
    run,
    concurrency: MAX_REQUESTS,
    maxItems: MAX_MESSAGES,
    lingerMs: LINGER_MS,
  });
  // What ends each request early. All that a sender keeps is kept once for a request: a note of every message
  // would take as long as sending it.
  const underWay = new Set<() => void>();
  let closed = false;
  let outOfTime = false;
  let freeAt = 0;

  function send(message: ExpoMessage): Promise<SendOutcome> {
    return closed ? Promise.resolve(closing({ ambiguous: false })) : batcher.add(message);
  }

  async function close({ graceMs = 10_000 }: { graceMs?: number } = {}): Promise<void> {
    closed = true;
    const impatience = setTimeout(() => {
      outOfTime = true;
      for (const end of underWay) end();
    }, graceMs);
    await batcher.drained();
    clearTimeout(impatience);
  }

  function run(messages: ExpoMessage[]): Promise<SendOutcome[]> {
    if (outOfTime) return Promise.resolve(messages.map(() => closing({ ambiguous: false })));
    const { promise, resolve, reject } = Promise.withResolvers<SendOutcome[]>();
    const end = () => resolve(messages.map(() => closing({ ambiguous: true })));
    underWay.add(end);
    sendAll(messages)
      .then((replies) => resolve(replies.map(classify)))
      .catch(reject)
      .finally(() => underWay.delete(end));
    return promise;
  }

  /** Resolves when so many messages may be sent. */
  async function turn(count: number): Promise<void> {
    const now = performance.now();
    const startAt = Math.max(freeAt, now);
    freeAt = startAt + (1000 * count) / PER_SECOND;
    if (startAt > now) await waitMs(startAt - now);
  }

  async function sendAll(messages: ExpoMessage[]): Promise<ExpoReply[]> {
    await turn(messages.length);
    const response = concealed(
      await endpoint.request(await requestFor(messages, accessToken)),
      () => conceal,
    );
    if ('error' in response || response.status === 200 || messages.length === 1)
      return split(response, messages);
    const isRefused = response.status === 400 || response.status === 413;
    if (!isRefused || expoError(response.text).code === 'UNAUTHORIZED') return messages.map(() => response);
    const responses = new Map<ExpoMessage, ExpoReply>();
    for (const part of partsOf(messages, response.text)) {
      const those = await sendAll(part);
      part.forEach((message, index) => {
        const own = those[index];
        if (own !== undefined) responses.set(message, own);
      });
    }
    return messages.map((message) => responses.get(message) ?? response);
  }

  return { send, close };
}

async function requestFor(messages: readonly ExpoMessage[], accessToken: string) {
  const body = Buffer.from(JSON.stringify(messages));
  const isLarge = body.length > GZIP_FROM_BYTES;
  return {
    method: 'POST',
    path: '/--/api/v2/push/send',
    headers: {
      authorization: `Bearer ${accessToken}`,
      'content-type': 'application/json',
      accept: 'application/json',
      ...(isLarge ? { 'content-encoding': 'gzip' } : {}),
    },
    body: isLarge ? await zip(body, EFFORT) : body,
  } as const;
}

/** The response to each message: its own ticket, if there is one for every message. */
function split(response: HttpResult, messages: readonly ExpoMessage[]): ExpoReply[] {
  if ('error' in response || response.status !== 200) return messages.map(() => response);
  const { data } = objectIn(response.text) as { data?: unknown };
  if (!Array.isArray(data)) return messages.map(() => response);
  const { status, headers } = response;
  if (data.length !== messages.length) {
    const message = `${data.length} tickets for ${messages.length} messages`;
    return messages.map(() => ({ status, headers, text: JSON.stringify({ message }) }));
  }
  return data.map((ticket: { status?: unknown; id?: unknown } | null) =>
    ticket?.status === 'ok' && typeof ticket.id === 'string'
      ? { status, headers, text: '', ticketId: ticket.id }
      : { status, headers, text: JSON.stringify({ data: [ticket] }) },
  );
}

/** Two parts or more, of all messages. */
function partsOf(messages: ExpoMessage[], text: string): ExpoMessage[][] {
  const projects = projectsIn(text);
  const parts = Map.groupBy(messages, ({ to }) => projects.get(to));
  if (parts.size > 1) return [...parts.values()];
  const middle = messages.length >> 1;
  return [messages.slice(0, middle), messages.slice(middle)];
}

/**
 * By their tokens, the projects that messages are for: what Expo says when a request was for more than one.
 */
function projectsIn(text: string): Map<string, string> {
  const { code, details } = expoError(text);
  const projects = new Map<string, string>();
  if (code !== 'PUSH_TOO_MANY_EXPERIENCE_IDS' || typeof details !== 'object') return projects;
  for (const [project, tokens] of Object.entries(details ?? {}))
    for (const token of Array.isArray(tokens) ? tokens : []) projects.set(String(token), project);
  return projects;
}

/** The error of a response that rejects the whole request. */
export function expoError(text: string): { code?: string; details?: unknown } {
  const { errors } = objectIn(text) as { errors?: unknown };
  const [first] = (Array.isArray(errors) ? errors : []) as ({ code?: unknown; details?: unknown } | null)[];
  return {
    ...(typeof first?.code === 'string' ? { code: first.code } : {}),
    details: first?.details,
  };
}
