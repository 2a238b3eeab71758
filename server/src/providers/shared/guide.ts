import type { AnyProvider } from '../provider.ts';
import type { HttpReply } from './transport.ts';

/**
 * What the reference page of a provider says besides what its config and its rates say. Loaded by nothing
 * that delivers.
 */
export type Guide<P extends { classify(reply: never): unknown } = AnyProvider> = {
  /** What people call it. */
  title: string;
  /** What of a broadcast's `overrides.providers` is merged into; not there where it knows no overrides. */
  override?: {
    into: string;
    /** What stays as it is whatever the override says. */
    locked: readonly string[];
    /** What else there is to know. */
    notes?: string;
  };
  /** `build` makes the vendor's message itself, several of which go in one request. */
  buildsMessage?: true;
  /** What is measured, how much of it there may be, and what happens to more. */
  limits: readonly (readonly [what: string, limit: string, beyond: string])[];
  /** Answers of the vendor. What they mean is not said here: `classify` is asked. */
  /** What all other answers mean, where the protocol is not HTTP. */
  otherwise?: string;
  answers: readonly (readonly [said: string, reply: Parameters<P['classify']>[0]])[];
};

/** An answer of the vendor, as `classify` takes it. */
export function answered(
  status: number,
  body: unknown = '',
  headers: Readonly<Record<string, string>> = {},
): HttpReply {
  return { status, headers, text: typeof body === 'string' ? body : JSON.stringify(body) };
}

/** What happens to messages beyond a limit, where there is nothing to leave out; and where there is. */
export const TOO_BIG = 'the delivery fails before the vendor is asked';
export const SHORTENED =
  '`custom_attributes` are left out; then the text is cut on a character, with `…`; then the delivery fails before the vendor is asked';
