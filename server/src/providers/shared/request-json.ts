import type { Finding } from '../provider.ts';
import { isTlsErrorCode } from './http-outcome.ts';
import { tlsProblem } from './tls-problem.ts';
import type { Endpoint, HttpRequest } from './transport.ts';
import { errorMessageIn, parseObject, tidy, withoutSecrets } from './vendor-text.ts';

/** A vendor's response to `requestJson`. `status` is 0 if there was no response. */
export type JsonResponse = {
  status: number;
  headers: Readonly<Record<string, string>>;
  /** The parsed body; an empty object if the body is not a JSON object. */
  json: object;
  /**
   * The vendor's error message, or the network error: one short line, without the credentials of the request.
   */
  summary: string;
  /** The code of the network error, if there was no response. */
  code?: string;
};

/**
 * Sends a request that changes nothing at the vendor, such as a verification of credentials. Never rejects.
 * `secrets` are those in the body; the values of its headers count as secrets, too.
 */
export async function requestJson(
  endpoint: Pick<Endpoint, 'request'>,
  { secrets = [], ...request }: HttpRequest & { secrets?: readonly string[] },
): Promise<JsonResponse> {
  const response = await endpoint.request(request);
  const sent = [...secrets, ...secretsIn(request.headers)];
  const redact = (text: string) => withoutSecrets(text, sent);
  if ('error' in response) {
    const { error } = response;
    const { code } = error;
    const problem = isTlsErrorCode(code) ? tlsProblem(error) : error.message;
    return { status: 0, headers: {}, json: {}, summary: tidy(redact(`${problem} (${code})`)), code };
  }
  const json = parseObject(response.text);
  const summary = tidy(redact(errorMessageIn(json) ?? response.text));
  const { status, headers } = response;
  return { status, headers, json, summary: summary === '' ? `${status}` : `${status} ${summary}` };
}

const PUBLIC_HEADERS: ReadonlySet<string> = new Set(['accept', 'content-type']);

/** Returns the values of headers and, as vendors may repeat a part of them, the words after the scheme. */
function secretsIn(headers: HttpRequest['headers'] = {}): string[] {
  return Object.entries(headers)
    .filter(([name]) => !PUBLIC_HEADERS.has(name.toLowerCase()))
    .flatMap(([, value]) => [value, ...value.split(/[ ,=]+/).slice(1)]);
}

/** Returns the text percent-encoded for use as one segment of a path. */
export function segment(text: string): string {
  return encodeURIComponent(text.toWellFormed()); // encodeURIComponent throws for a lone surrogate
}

/** Whether the vendor rejected the credentials. */
export function rejectsCredentials({ status }: JsonResponse): boolean {
  return status === 401 || status === 403;
}

/** The finding for a response that neither confirms nor disproves the config. */
export function notVerified(vendor: string, { status, summary }: JsonResponse): Finding {
  const why = status === 0 ? `${vendor} did not respond` : `${vendor} responded`;
  return { field: '(root)', problem: `could not be verified: ${why}: ${summary}` };
}
