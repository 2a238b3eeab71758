import { createHmac, createSecretKey } from 'node:crypto';
import type { Event } from '../../../contract/event.ts';
import type { Clock } from '../../../lib/clock.ts';
import { writeJson } from '../../../lib/exact-numbers.ts';
import { isTlsErrorCode } from '../../../providers/shared/http-outcome.ts';
import { tlsProblem } from '../../../providers/shared/tls-problem.ts';
import type { Endpoint, HttpResult, Transport } from '../../../providers/shared/transport.ts';
import { tidy } from '../../../providers/shared/vendor-text.ts';
import { SECRET_PREFIX } from './secrets.ts';

/** How one attempt ended. */
export interface Attempt {
  accepted: boolean;
  /** The receiver responded with 410 Gone: it wants no more messages. */
  gone: boolean;
  status: number | null;
  reason: string | null;
  retryAfterMs: number | null;
  durationMs: number;
  atMs: number;
}

const MAX_REASON = 200;
// Little more than the status matters. Hundreds of responses are read at the same time, and an untrusted host
// may send any amount.
const MAX_RESPONSE_BYTES = 16 * 1024;

/**
 * Returns a function that signs an event and sends it to a webhook. It resolves to `interrupted` if this
 * server stops before the outcome is known, and never rejects.
 */
export function messageSender(
  { transport, clock }: { transport: Pick<Transport, 'at'>; clock: Clock },
  { url, secrets }: { url: string; secrets: readonly string[] },
): (event: Event) => Promise<Attempt | 'interrupted'> {
  const { origin, pathname, search } = new URL(url);
  const endpoint = transport.at(origin);
  const path = `${pathname}${search}`;
  const sign = signer(secrets);
  return (event) => send({ endpoint, path, sign, clock }, event);
}

async function send(
  { endpoint, path, sign, clock }: { endpoint: Endpoint; path: string; sign: Sign; clock: Clock },
  event: Event,
): Promise<Attempt | 'interrupted'> {
  const body = writeJson({ type: event.type, timestamp: event.timestamp, data: event });
  const atMs = clock.now();
  const startedAt = performance.now();
  const response = await endpoint.request({
    method: 'POST',
    path,
    headers: { 'content-type': 'application/json', ...sign({ id: event.id, atMs, body }) },
    body,
    maxResponseBytes: MAX_RESPONSE_BYTES,
  });
  if ('error' in response && response.error.code === 'CLOSED') return 'interrupted';
  return { ...resultOf(response, atMs), durationMs: Math.round(performance.now() - startedAt), atMs };
}

/** Classifies a response: only 2xx accepts the message, and redirects are not followed. */
function resultOf(response: HttpResult, nowMs: number): Omit<Attempt, 'durationMs' | 'atMs'> {
  if ('error' in response) {
    const { code, message } = response.error;
    const said = isTlsErrorCode(code) ? `TLS failed: ${tlsProblem(response.error)}` : message;
    const reason = tidy(said === '' ? code : said, MAX_REASON);
    return { accepted: false, gone: false, status: null, reason, retryAfterMs: null };
  }
  const { status, headers, text } = response;
  const accepted = status >= 200 && status < 300;
  return {
    accepted,
    gone: status === 410,
    status,
    reason: accepted
      ? null
      : tidy(`responded with ${status}${text.trim() === '' ? '' : `: ${text}`}`, MAX_REASON),
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

/** Returns the headers of a message. `body` must be sent byte for byte. */
type Sign = (message: { id: string; atMs: number; body: string }) => Record<string, string>;

/**
 * Signs messages as Standard Webhooks (https://www.standardwebhooks.com) specifies, with each of the secrets:
 * a receiver can verify them with any one.
 */
function signer(secrets: readonly string[]): Sign {
  // Key objects: from bytes Node makes one for each HMAC, which takes 17 µs instead of 3.
  const keys = secrets.map((secret) =>
    createSecretKey(Buffer.from(secret.slice(SECRET_PREFIX.length), 'base64')),
  );
  return ({ id, atMs, body }) => {
    const timestamp = String(Math.floor(atMs / 1000));
    const content = `${id}.${timestamp}.${body}`;
    const signatures = keys.map((key) => `v1,${createHmac('sha256', key).update(content).digest('base64')}`);
    return { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signatures.join(' ') };
  };
}
