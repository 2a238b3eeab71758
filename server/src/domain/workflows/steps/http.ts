import { readJson, writeJson } from '../../../lib/exact-numbers.ts';
import { memberOf } from '../../../lib/members.ts';
import { reasonOfError, retryAfter } from '../../../providers/shared/http-outcome.ts';
import type { HttpResponse } from '../../../providers/shared/transport.ts';
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
  problems: httpProblems,
  async begin({ transport }, { input, attempt, readsBodies }) {
    const problems = httpProblems(input);
    if (problems.length > 0) return { kind: 'fail', error: problems.join('; ') };
    const { url, method = 'POST', headers = {}, body, retries = DEFAULT_RETRIES } = input;
    const { origin, host, pathname, search } = new URL(url);
    const own = lowerCase(headers);
    const response = await transport.at(origin).request({
      method,
      path: `${pathname}${search}`,
      headers: { ...contentType(body), ...own },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : writeJson(body) }),
      maxResponseBytes: MAX_RESPONSE_BYTES,
    });
    const redact = redactor(secretsIn(own));
    if ('error' in response) {
      if (response.error.code === 'CLOSED') return { kind: 'retry', delayMs: 0 };
      if (attempt < retries) return { kind: 'retry', delayMs: backoff(attempt + 1) };
      return { kind: 'fail', error: redact(reasonOfError(response.error, host)) };
    }
    const { status, headers: received, text } = response;
    if (status >= 200 && status < 300) {
      if (readsBodies && isCutJson(response)) return { kind: 'fail', error: `${host}: ${TOO_LONG}` };
      const body = parsed(text, redact);
      return { kind: 'done', output: { status, body, ...(response.truncated && { truncated: true }) } };
    }
    if (TEMPORARY.test(String(status)) && attempt < retries) {
      const retryAfterMs = retryAfter(received);
      return {
        kind: 'retry',
        delayMs: backoff(attempt + 1, { retryAfterMs }),
      };
    }
    const reason = `responded with ${status}${text.trim() === '' ? '' : `: ${text}`}`;
    return { kind: 'fail', error: `${host}: ${tidy(redact(reason), MAX_REASON)}` };
  },
};

function httpProblems(input: unknown): string[] {
  const [url, headers] = [memberOf(input, 'url'), memberOf(input, 'headers')];
  const problems: string[] = [];
  const { protocol, username, password } =
    typeof url === 'string' && URL.canParse(url) ? new URL(url) : NO_URL;
  if (protocol !== 'https:' && protocol !== 'http:')
    problems.push("Param 'url' must begin with https:// or http://");
  if (username !== '' || password !== '')
    problems.push("Param 'url' must not contain a password: put credentials into headers");
  if (typeof headers !== 'object' || headers === null) return problems;
  const framing = Object.keys(headers).filter((name) => FRAMING.has(name.toLowerCase()));
  return [
    ...problems,
    ...framing.map((name) => `Param 'headers' doesn't allow key: ${name}, which Belfry sets itself`),
  ];
}

// The schema reports what is no URL.
const NO_URL = { protocol: 'https:', username: '', password: '' };

const TOO_LONG =
  `the JSON of the response has more than ${MAX_RESPONSE_BYTES} bytes, and the workflow reads its members. ` +
  'Request less, such as a page or fewer fields';

/** Whether a response is JSON of which a part is missing, so that nothing can be read from it. */
function isCutJson({ truncated, headers }: HttpResponse): boolean {
  return truncated === true && /\bjson\b/i.test(headers['content-type'] ?? '');
}

// Headers of the connection, which Belfry sets itself. A request with one of them is not sent.
const FRAMING = new Set(
  'host connection keep-alive content-length transfer-encoding upgrade te expect'.split(' '),
);
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
 * Returns the credentials in headers. Hosts may repeat them with the scheme, such as `Bearer`, or without,
 * and each cookie alone.
 */
function secretsIn(headers: Readonly<Record<string, string>>): string[] {
  return Object.entries(headers)
    .filter(([name]) => SECRET_HEADER.test(name))
    .flatMap(([name, value]) => [
      value.trim(),
      ...(name.includes('cookie') ? cookiesIn(value) : value.trim().split(/\s+/).slice(1)),
    ]);
}

/** Returns each cookie with its name, and its value alone. */
function cookiesIn(header: string): string[] {
  return header.split(';').flatMap((pair) => {
    const value = pair.slice(pair.indexOf('=') + 1).trim();
    return [pair.trim(), value, value.replace(/^"(.*)"$/, '$1')];
  });
}

/** Parses JSON, and redacts its texts. Other texts are redacted as they are. */
function parsed(text: string, redact: (text: string) => string): unknown {
  try {
    return redactedIn(readJson(text), redact);
  } catch {
    return redact(text);
  }
}

/** Redacts the texts in a parsed value. Changes its objects, which remember their numbers. */
function redactedIn(value: unknown, redact: (text: string) => string): unknown {
  if (typeof value === 'string') return redact(value);
  if (typeof value !== 'object' || value === null) return value;
  const members = value as Record<string, unknown>;
  for (const name of Object.keys(members)) members[name] = redactedIn(members[name], redact);
  return value;
}
