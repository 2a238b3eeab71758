import type { HttpResponse } from './transport.ts';

/**
 * The part of a provider's reference page that does not follow from its config and its rates. Loaded only by
 * the generator of that page.
 */
export type Guide<Reply = HttpResponse> = {
  /** For providers with an `overrideKey`: the part of the payload that the override is merged into. */
  override?: {
    into: string;
    /** The members that an override cannot change. */
    locked: readonly string[];
    notes?: string;
  };
  /** `build` returns one message of the vendor; a request carries several of them. */
  buildsMessage?: true;
  /** Each limit: what is limited, the limit, and what happens beyond it. */
  limits: readonly (readonly [what: string, limit: string, beyond: string])[];
  /**
   * Sample responses of the vendor, each with a description. Their meaning on the page comes from `classify`.
   */
  responses: readonly (readonly [description: string, reply: Reply])[];
  /** The meaning of all other responses, where the protocol is not HTTP. */
  otherwise?: string;
};

/** Returns a vendor's response in the form that `classify` accepts. */
export function response(
  status: number,
  body: unknown = '',
  headers: Readonly<Record<string, string>> = {},
): HttpResponse {
  return { status, headers, text: typeof body === 'string' ? body : JSON.stringify(body) };
}

/** The effect of a limit: for providers that never shorten a message, and for those that do. */
export const TOO_BIG = 'the delivery fails before a request is made';
export const SHORTENED =
  '`custom_attributes` are left out, then the text is cut and ends in `…`; if it is still too big, ' +
  'the delivery fails before a request is made';
