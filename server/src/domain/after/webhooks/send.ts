import type { Event } from '../../../contract/event.ts';
import type { Clock } from '../../../lib/clock.ts';
import type { Endpoint, HttpAnswer, Transport } from '../../../providers/shared/transport.ts';
import { tidy } from '../../../providers/shared/vendor-words.ts';
import { type Sign, signer } from './sign.ts';

/** How one attempt ended. */
export interface Attempt {
  accepted: boolean;
  /** The receiver wants no more messages, ever: 410 Gone. */
  gone: boolean;
  status: number | null;
  reason: string | null;
  retryAfterMs: number | null;
  durationMs: number;
  atMs: number;
}

const MAX_REASON = 200;
// Of an answer little more than its status matters. Hundreds are read at the same time, and a stranger may
// answer with any amount.
const MAX_ANSWER_BYTES = 16 * 1024;

/**
 * Returns what sends an event to a webhook, signed; `put off` if the server stops before it is known how that
 * ended. Never rejects.
 */
export function messageSender(
  { transport, clock }: { transport: Pick<Transport, 'at'>; clock: Clock },
  { url, secrets }: { url: string; secrets: readonly string[] },
): (event: Event) => Promise<Attempt | 'put off'> {
  const { origin, pathname, search } = new URL(url);
  const endpoint = transport.at(origin);
  const path = `${pathname}${search}`;
  const sign = signer(secrets);
  return (event) => send({ endpoint, path, sign, clock }, event);
}

async function send(
  { endpoint, path, sign, clock }: { endpoint: Endpoint; path: string; sign: Sign; clock: Clock },
  event: Event,
): Promise<Attempt | 'put off'> {
  const body = JSON.stringify({ type: event.type, timestamp: event.timestamp, data: event });
  const atMs = clock.now();
  const startedAt = performance.now();
  const answer = await endpoint.request({
    method: 'POST',
    path,
    headers: { 'content-type': 'application/json', ...sign({ id: event.id, atMs, body }) },
    body,
    maxAnswerBytes: MAX_ANSWER_BYTES,
  });
  if ('error' in answer && answer.error.code === 'CLOSED') return 'put off';
  return { ...judge(answer, atMs), durationMs: Math.round(performance.now() - startedAt), atMs };
}

/** What an answer means: only 2xx is a yes, and a redirect is not followed. */
function judge(answer: HttpAnswer, nowMs: number): Omit<Attempt, 'durationMs' | 'atMs'> {
  if ('error' in answer) {
    const { code, message } = answer.error;
    const reason = tidy(message === '' ? code : message, MAX_REASON);
    return { accepted: false, gone: false, status: null, reason, retryAfterMs: null };
  }
  const { status, headers, text } = answer;
  const accepted = status >= 200 && status < 300;
  return {
    accepted,
    gone: status === 410,
    status,
    reason: accepted
      ? null
      : tidy(text.trim() === '' ? `answered ${status}` : `answered ${status}: ${text}`, MAX_REASON),
    retryAfterMs: retryAfterMs(headers['retry-after'], nowMs),
  };
}

/** `Retry-After` (RFC 9110, 10.2.3): seconds, or a date. */
function retryAfterMs(value: string | undefined, nowMs: number): number | null {
  if (value === undefined) return null;
  if (/^\d{1,9}$/.test(value)) return Number(value) * 1000;
  const at = Date.parse(value);
  return Number.isNaN(at) ? null : Math.max(0, at - nowMs);
}
