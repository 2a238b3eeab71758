import { promisify } from 'node:util';
import { constants, gzip } from 'node:zlib';
import { Batcher } from '../../lib/batcher.ts';
import { writeJson } from '../../lib/exact-numbers.ts';
import { waitMs } from '../../lib/wait.ts';
import type { Sender, SendOutcome } from '../provider.ts';
import { closing, redacted } from '../shared/http-sender.ts';
import type { Endpoint, HttpResult } from '../shared/transport.ts';
import { parseObject, redactor } from '../shared/vendor-text.ts';

/** The limit of Expo: messages per second and project. */
export const PER_SECOND = 600;

/** A message in Expo's format. */
export type ExpoMessage = { [member: string]: unknown } & { to: string };

/** The response for one message. A message that Expo accepted has the id of its ticket instead of a body. */
export type ExpoReply = HttpResult & { ticketId?: string };

const MAX_MESSAGES = 100; // per request
const LINGER_MS = 50; // the longest wait of a message for others
const MAX_REQUESTS = 6; // in flight, as Expo recommends
const GZIP_FROM_BYTES = 1024;

const zip = promisify(gzip);
/** The messages of a request are so similar that a higher level saves almost no bytes. */
const COMPRESSION = { level: constants.Z_BEST_SPEED };

/**
 * Creates a sender that batches messages and resolves each as if it had been sent alone. If some messages
 * make Expo reject the whole request, it is split and sent again, so that the others get through: by project
 * if Expo lists the projects, else in halves.
 */
export function createExpoBatches(
  endpoint: Pick<Endpoint, 'request'>,
  accessToken: string,
  classify: (reply: ExpoReply) => SendOutcome,
): Pick<Sender<ExpoMessage>, 'send' | 'close'> {
  const redact = redactor([accessToken]);
  const batcher = new Batcher<ExpoMessage, SendOutcome>({
    run,
    concurrency: MAX_REQUESTS,
    maxItems: MAX_MESSAGES,
    lingerMs: LINGER_MS,
  });
  // Ends a request early, one entry per request: an entry per message would take as long as sending it.
  const inFlight = new Set<() => void>();
  let closed = false;
  let outOfTime = false;
  let freeAt = 0;

  function send(message: ExpoMessage): Promise<SendOutcome> {
    return closed ? Promise.resolve(closing({ ambiguous: false })) : batcher.add(message);
  }

  async function close({ graceMs = 10_000 }: { graceMs?: number } = {}): Promise<void> {
    closed = true;
    const timer = setTimeout(() => {
      outOfTime = true;
      for (const end of inFlight) end();
    }, graceMs);
    await batcher.drained();
    clearTimeout(timer);
  }

  function run(messages: ExpoMessage[]): Promise<SendOutcome[]> {
    if (outOfTime) return Promise.resolve(messages.map(() => closing({ ambiguous: false })));
    const { promise, resolve, reject } = Promise.withResolvers<SendOutcome[]>();
    const end = () => resolve(messages.map(() => closing({ ambiguous: true })));
    inFlight.add(end);
    sendAll(messages)
      .then((replies) => resolve(replies.map(classify)))
      .catch(reject)
      .finally(() => inFlight.delete(end));
    return promise;
  }

  /** Resolves when the rate limit permits this many messages. */
  async function waitForRate(count: number): Promise<void> {
    const now = performance.now();
    const startAt = Math.max(freeAt, now);
    freeAt = startAt + (1000 * count) / PER_SECOND;
    if (startAt > now) await waitMs(startAt - now);
  }

  async function sendAll(messages: ExpoMessage[]): Promise<ExpoReply[]> {
    await waitForRate(messages.length);
    const response = redacted(await endpoint.request(await requestFor(messages, accessToken)), () => redact);
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
  const body = Buffer.from(writeJson(messages));
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
    body: isLarge ? await zip(body, COMPRESSION) : body,
  } as const;
}

/** Returns the response for each message: its own ticket, if there is one for every message. */
function split(response: HttpResult, messages: readonly ExpoMessage[]): ExpoReply[] {
  if ('error' in response || response.status !== 200) return messages.map(() => response);
  const { data } = parseObject(response.text) as { data?: unknown };
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

/** Returns at least two parts that together contain all messages. */
function partsOf(messages: ExpoMessage[], text: string): ExpoMessage[][] {
  const projects = projectsIn(text);
  const parts = Map.groupBy(messages, ({ to }) => projects.get(to));
  if (parts.size > 1) return [...parts.values()];
  const middle = messages.length >> 1;
  return [messages.slice(0, middle), messages.slice(middle)];
}

/** Returns the project of each token, from the error for a request that mixes projects. */
function projectsIn(text: string): Map<string, string> {
  const { code, details } = expoError(text);
  const projects = new Map<string, string>();
  if (code !== 'PUSH_TOO_MANY_EXPERIENCE_IDS' || typeof details !== 'object') return projects;
  for (const [project, tokens] of Object.entries(details ?? {}))
    for (const token of Array.isArray(tokens) ? tokens : []) projects.set(String(token), project);
  return projects;
}

/** Returns the error of a response that rejects the whole request. */
export function expoError(text: string): { code?: string; details?: unknown } {
  const { errors } = parseObject(text) as { errors?: unknown };
  const [first] = (Array.isArray(errors) ? errors : []) as ({ code?: unknown; details?: unknown } | null)[];
  return {
    ...(typeof first?.code === 'string' ? { code: first.code } : {}),
    details: first?.details,
  };
}
