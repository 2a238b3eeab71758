import type { HttpResponse } from './transport.ts';

/**
 * The part of a provider's reference page that is not made of its config and its rates. Only the generator
 * of that page loads it.
 */
export type Guide<Reply = HttpResponse> = {
  /** For providers with an `overrideKey`: the part of the payload that the override is merged into. */
  override?: {
    into: string;
    /** The members that no override changes. */
    locked: readonly string[];
    notes?: string;
  };
  /** `build` returns the vendor's message, several of which go in one request. */
  buildsMessage?: true;
  /** What is measured, the limit, and what happens beyond it. */
  limits: readonly (readonly [what: string, limit: string, beyond: string])[];
  /** The vendor's responses, each with a description. The page takes their meaning from `classify`. */
  responses: readonly (readonly [description: string, reply: Reply])[];
  /** The meaning of all other responses, where the protocol is not HTTP. */
  otherwise?: string;
};

/** A response of the vendor, as `classify` takes it. */
export function response(
  status: number,
  body: unknown = '',
  headers: Readonly<Record<string, string>> = {},
): HttpResponse {
  return { status, headers, text: typeof body === 'string' ? body : JSON.stringify(body) };
}

/** What happens to messages beyond a limit: of providers that shorten nothing, and of those that do. */
export const TOO_BIG = 'the delivery fails before a request is made';
export const SHORTENED =
  '`custom_attributes` are left out, then the text is cut and ends in `…`; if it is still too big, ' +
  'the delivery fails before a request is made';
