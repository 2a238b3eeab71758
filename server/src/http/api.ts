import type { ClientError } from '../errors.ts';
import type { Authenticator, Caller } from './auth.ts';

/** A version of the API: what all its operations have in common. Each route is registered with one. */
export interface Api {
  readonly version: 'v1' | 'v2';
  /** The start of every path: `/v2`, or nothing for v1. */
  readonly prefix: string;
  /** Finds the caller of a request. */
  readonly authenticate: Authenticator;
  /**
   * The credential that an operation needs: the choices of security schemes in the API description, and its
   * name in errors.
   */
  readonly credentials: Record<Caller['kind'], { security: Record<string, string[]>[]; name: string }>;
  /** The body of an error response, before it is written as JSON. */
  readonly errorBody: (error: ClientError) => object;
  readonly limits: ApiLimits;
  /** Headers of every response. */
  readonly headers: Readonly<Record<string, string>>;
}

export interface ApiLimits {
  /** Requests per minute of one caller whose project has no limits of its own; 0 for unlimited. */
  readonly requests: { reads: number; writes: number };
  /** Limits of request bodies for routes without their own. */
  readonly bodies: Record<Caller['kind'] | 'anyone', { bytes: number; keysAndValues: number }>;
}
