import type { Finding } from '../provider.ts';
import type { Endpoint, HttpRequest } from './transport.ts';
import { objectIn, tidy, withoutSecrets, wordsIn } from './vendor-words.ts';

/** A vendor's response to a question; its status is 0 if there was none. */
export type Asked = {
  status: number;
  headers: Readonly<Record<string, string>>;
  /** The body; an empty object where it is no JSON object. */
  json: object;
  /** The vendor's own words, or why there are none: one short line without the credentials that were sent. */
  said: string;
  /** The error's code, if there was no response. */
  code?: string;
};

/**
 * Asks a vendor something that changes nothing. `secrets` are those in the body; what is in `authorization`
 * is known.
 */
export async function ask(
  endpoint: Pick<Endpoint, 'request'>,
  { secrets = [], ...request }: HttpRequest & { secrets?: readonly string[] },
): Promise<Asked> {
  const response = await endpoint.request(request);
  const sent = [...secrets, ...(request.headers?.authorization?.split(/[ ,=]+/).slice(1) ?? [])];
  const hide = (text: string) => withoutSecrets(text, sent);
  if ('error' in response) {
    const { code, message } = response.error;
    return { status: 0, headers: {}, json: {}, said: tidy(hide(`${message} (${code})`)), code };
  }
  const json = objectIn(response.text);
  const said = tidy(hide(wordsIn(json) ?? response.text));
  const { status, headers } = response;
  return { status, headers, json, said: said === '' ? `${status}` : `${status} ${said}` };
}

/** A text as one part of a path, whatever is in it. */
export function segment(text: string): string {
  return encodeURIComponent(text.toWellFormed()); // throws for half of a surrogate pair
}

/** Whether the vendor rejects the credentials. */
export function isRefusal({ status }: Asked): boolean {
  return status === 401 || status === 403;
}

/** For a response that says nothing about the config: it could not be tried. */
export function notChecked(vendor: string, { status, said }: Asked): Finding {
  const why = status === 0 ? `${vendor} did not respond` : `${vendor} responded`;
  return { field: '(root)', problem: `could not be verified: ${why}: ${said}` };
}
