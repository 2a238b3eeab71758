// Server-Sent Events and polling, for networks where a WebSocket does not work. Loaded when they are needed.
import type { BelfryError } from '@belfry/sdk';
import { isHidden } from './browser.ts';
import { parse } from './parse.ts';
import { openStream } from './sse.ts';
import type { Ending, LiveEvent, Opening, Session } from './transport.ts';

const CONNECT_TIMEOUT_MS = 5_000;
// A stream begins with an id. A proxy that passes none within this time collects the response.
const FIRST_DATA_TIMEOUT_MS = 5_000;
const POLL_EVERY_MS = 15_000;
// Browsers open six connections to a host with HTTP/1.1. A hidden tab does not keep one of them for a stream.
const HIDDEN_MS = 30_000;

/** Follows the stream of Server-Sent Events until it ends. */
export async function overSse(live: Session): Promise<Ending> {
  const ended = new AbortController();
  const end = () => ended.abort();
  const { lastEventId } = live;
  let readyAt = 0;
  // For a response that ends at once, such as the login page of a network.
  let failure: unknown = { code: 'invalid_response' };
  let isSilent = false;
  const expire = () => {
    isSilent = true;
    end();
  };
  let timer = setTimeout(end, live.tokenTimeoutMs);
  const limit = (reached: () => void, ms: number) => {
    clearTimeout(timer);
    timer = setTimeout(reached, ms);
  };
  const unwatch = live.watch(end);
  let hiddenTimer: ReturnType<typeof setTimeout> | undefined;
  const checkHidden = () => {
    clearTimeout(hiddenTimer);
    if (isHidden()) hiddenTimer = setTimeout(end, HIDDEN_MS);
  };
  globalThis.document?.addEventListener('visibilitychange', checkHidden, { signal: ended.signal });
  checkHidden();
  try {
    const blocks = openStream(live.options.api, {
      signal: ended.signal,
      lastEventId,
      listed: live.options.listed(),
      onToken: () => limit(expire, CONNECT_TIMEOUT_MS),
      onOpen: () => limit(expire, FIRST_DATA_TIMEOUT_MS),
    });
    for await (const { id, event, data } of blocks) {
      limit(end, live.idleTimeoutMs);
      if (id !== undefined) live.lastEventId = id;
      // A part of the first block may have arrived. The block itself has an id, also from an older server.
      if (readyAt === 0 && id !== undefined) {
        readyAt = Date.now();
        live.connected('sse', event === 'ready' ? parse<Opening>(data) : undefined);
      }
      const change = event === 'ready' ? undefined : parse<LiveEvent>(data);
      if (change !== undefined) live.options.onEvent(change);
    }
  } catch (error) {
    failure = error;
  }
  unwatch();
  end(); // the listener
  clearTimeout(timer);
  clearTimeout(hiddenTimer);
  if (readyAt > 0) return { kind: 'lost', lastedMs: Date.now() - readyAt };
  // A proxy collects the response. If the server is down instead, polling fails as well.
  return isSilent ? { kind: 'unsupported' } : endingOf(failure);
}

/** Fetches what is shown regularly, until the better transports may work again or a request fails. */
export async function byPolling(live: Session): Promise<Ending> {
  let polled = false;
  do {
    if (await isDeleted(live)) return { kind: 'ended' };
    try {
      await live.options.poll();
    } catch (error) {
      return polled ? { kind: 'lost', lastedMs: Number.POSITIVE_INFINITY } : endingOf(error);
    }
    polled = true;
    live.lastEventId ??= '0'; // no id of an event, so a stream begins with the state of the inbox
    live.connected('polling');
    await live.sleep(POLL_EVERY_MS * (0.9 + Math.random() * 0.2));
  } while (live.mayPoll);
  return { kind: 'lost', lastedMs: Number.POSITIVE_INFINITY };
}

/** Whether the user was deleted. A stream that resumes does not restore it, as other requests do. */
async function isDeleted({ lastEventId, options }: Session): Promise<boolean> {
  if (lastEventId === undefined) return false;
  const request = { method: 'HEAD', path: '/notifications/stream' } as const;
  const headers = { 'last-event-id': lastEventId };
  const limits = { maxRetries: 0, timeoutMs: CONNECT_TIMEOUT_MS };
  return options.api.send(request, { headers, ...limits }).then(
    () => false,
    // A proxy that does not let it pass may pass the others.
    (error) => endingOf(error).kind === 'ended',
  );
}

function endingOf(error: unknown): Ending {
  const { status, code } = error as Partial<BelfryError>;
  if (status === 401 || status === 403) return { kind: 'unauthorized' };
  if (status === 410) return { kind: 'ended' };
  return { kind: code === 'invalid_response' || status === 404 ? 'unsupported' : 'failed' };
}
