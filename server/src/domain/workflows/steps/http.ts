import { redactor, tidy } from '../../../providers/shared/vendor-text.ts';
import { backoff } from '../../../queue/backoff.ts';
import type { Command } from './command.ts';

interface Input {
  url: string;
  method?: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  headers?: Readonly<Record<string, string>>;
  body?: unknown;
  retries?: number;
}

const DEFAULT_RETRIES = 3;
const MAX_RESPONSE_BYTES = 16 * 1024;
const MAX_REASON = 200;

/** Sends a request to another host, at least once. The run shows no credentials of it. */
export const http: Command<Input> = {
  acts: true,
  calls: ({ url }) => new URL(url).origin,
  async begin({ transport }, { input, attempt }) {
    const { url, method = 'POST', headers = {}, body, retries = DEFAULT_RETRIES } = input;
    const { protocol, origin, host, pathname, search, username } = new URL(url);
    if (protocol !== 'https:' && protocol !== 'http:')
      return { kind: 'fail', error: "Param 'url' must begin with https:// or http://" };
    if (username !== '') return { kind: 'fail', error: "Param 'url' must not contain a password" };
    const own = lowerCase(headers);
    const framing = Object.keys(own).find((name) => FRAMING.has(name));
    if (framing !== undefined) return { kind: 'fail', error: `Param 'headers.${framing}' is not allowed` };
    const response = await transport.at(origin).request({
      method,
      path: `${pathname}${search}`,
      headers: { ...contentType(body), ...own },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      maxResponseBytes: MAX_RESPONSE_BYTES,
    });
    const redact = redactor(secretsIn(own));
    if (!('error' in response) && response.status >= 200 && response.status < 300)
      return { kind: 'done', output: { status: response.status, body: parsed(response.text, redact) } };
    const mayWorkLater = 'error' in response || TEMPORARY.test(String(response.status));
    if ('error' in response && response.error.code === 'CLOSED') return { kind: 'retry', delayMs: 0 };
    if (mayWorkLater && attempt < retries) return { kind: 'retry', delayMs: backoff(attempt + 1) };
    const reason =
      'error' in response
        ? response.error.message || response.error.code
        : `responded with ${response.status}${response.text.trim() === '' ? '' : `: ${response.text}`}`;
    return { kind: 'fail', error: `${host}: ${tidy(redact(reason), MAX_REASON)}` };
  },
};

// Headers of the connection, which Belfry sets itself.
const FRAMING = new Set(['host', 'connection', 'content-length', 'transfer-encoding', 'upgrade', 'te']);
const TEMPORARY = /^(408|429|5\d\d)$/;

function contentType(body: unknown): Record<string, string> {
  if (body === undefined) return {};
  return { 'content-type': typeof body === 'string' ? 'text/plain; charset=utf-8' : 'application/json' };
}

function lowerCase(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}

// Names of headers with credentials.
const SECRET_HEADER = /auth|cookie|credential|jwt|(?<!idempotency-)key|pass|secret|session|signature|token/;

/**
 * Returns the credentials in headers. Hosts may repeat them with the scheme, such as `Bearer`, or without.
 */
function secretsIn(headers: Readonly<Record<string, string>>): string[] {
  return Object.entries(headers)
    .filter(([name]) => SECRET_HEADER.test(name))
    .flatMap(([, value]) => [value.trim(), ...value.trim().split(/\s+/).slice(1)]);
}

function parsed(text: string, redact: (text: string) => string): unknown {
  try {
    return JSON.parse(text, (_, value) => (typeof value === 'string' ? redact(value) : value));
  } catch {
    return redact(text);
  }
}
