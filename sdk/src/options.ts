/** How a client reaches its server, and how patient it is. */
export interface ClientOptions {
  /**
   * The Project JWT or User JWT, or a function that answers the one to use: it is asked before every attempt,
   * so it is the place to renew a token that has expired.
   */
  token: string | (() => string | Promise<string>);
  /** The address of the API, with its version: `https://notify.example.com/v2`. */
  baseUrl: string;
  /** How often a call is tried again after a failure that may pass; 0 for never. @default 3 */
  maxRetries?: number | undefined;
  /** How long one attempt may take. @default 30000 */
  timeoutMs?: number | undefined;
  /** How long a call may take with all attempts and the waits between them. @default 60000 */
  totalTimeoutMs?: number | undefined;
  /** Sent with every request. */
  headers?: Readonly<Record<string, string>> | undefined;
  /**
   * Names this client: what it changes comes back in streams with this `client_id`, so that it can skip its
   * own echo.
   */
  clientId?: string | undefined;
  /** Used instead of the global `fetch`: for a proxy, a log, or measurements. */
  fetch?: typeof fetch | undefined;
}

/** What one call does otherwise than its client. */
export interface RequestOptions {
  /** Ends the call; it then rejects with the reason of the signal. */
  signal?: AbortSignal | undefined;
  /**
   * For a POST. Without one, a new one is made for each call, so that its attempts have one effect together.
   */
  idempotencyKey?: string | undefined;
  maxRetries?: number | undefined;
  timeoutMs?: number | undefined;
  totalTimeoutMs?: number | undefined;
  headers?: Readonly<Record<string, string>> | undefined;
}

/** A query whose members may also be `undefined`. */
export type Query<Members> = { [Name in keyof Members]: Members[Name] | undefined };

/** What one stream does otherwise than its client. */
export interface StreamOptions {
  /** Ends the stream, and the loop over it, without an error. */
  signal?: AbortSignal | undefined;
  /** Where to go on: the `lastEventId` of an earlier stream. */
  lastEventId?: string | undefined;
  /**
   * The connection counts as dead when nothing has come for so long; servers send a sign of life every 15 s.
   * @default 45000
   */
  idleTimeoutMs?: number | undefined;
  /** How many attempts in a row may fail before the stream does. @default Infinity */
  maxRetries?: number | undefined;
  /** How long one attempt to connect may take. @default that of the client */
  timeoutMs?: number | undefined;
  headers?: Readonly<Record<string, string>> | undefined;
  /** Called each time the connection stands. */
  onOpen?: (() => void) | undefined;
  /**
   * Called each time it is lost or cannot be made, with what went wrong if anything did, and when it is tried
   * again.
   */
  onDisconnect?: ((event: { error: unknown; retryInMs: number }) => void) | undefined;
}
