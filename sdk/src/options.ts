/** How a client reaches its server, and its timeouts. */
export interface ClientOptions {
  /**
   * The Project JWT or User JWT, or a function that returns it. The function is called before every attempt,
   * so it can renew an expired token.
   */
  token: string | (() => string | Promise<string>);
  /**
   * The address of the API, with its version: `https://notify.example.com/v2`. Behind a proxy, the path may
   * be another one.
   */
  baseUrl: string;
  /** How often a call is retried after a temporary failure; 0 for never. @default 3 */
  maxRetries?: number | undefined;
  /** The time for one attempt. @default 30000 */
  timeoutMs?: number | undefined;
  /** The time for all attempts of a call and the waits between them. @default 60000 */
  totalTimeoutMs?: number | undefined;
  /** Sent with every request. */
  headers?: Readonly<Record<string, string>> | undefined;
  /**
   * Names this client. Streams mark its changes with this `client_id`, so that it can skip them.
   */
  clientId?: string | undefined;
  /** Replaces the global `fetch`, for a proxy, a log or metrics. */
  fetch?: typeof fetch | undefined;
}

/** Options of one call. They take precedence over those of the client. */
export interface RequestOptions {
  /** Aborts the call, which rejects with the reason of the signal. */
  signal?: AbortSignal | undefined;
  /**
   * For a POST. By default each call has a new key, so that all its attempts have one effect.
   */
  idempotencyKey?: string | undefined;
  maxRetries?: number | undefined;
  timeoutMs?: number | undefined;
  totalTimeoutMs?: number | undefined;
  /** The call fails at once if the server asks to wait longer before the next attempt. */
  maxRetryAfterMs?: number | undefined;
  headers?: Readonly<Record<string, string>> | undefined;
}

/** A query whose members may also be `undefined`. */
export type Query<Members> = { [Name in keyof Members]: Members[Name] | undefined };

/** Options of one stream. They take precedence over those of the client. */
export interface StreamOptions {
  /** Ends the stream, and the loop over it, without an error. */
  signal?: AbortSignal | undefined;
  /** Continues after this event: the `lastEventId` of an earlier stream. */
  lastEventId?: string | undefined;
  /**
   * The connection is restored after this time without data. Servers send a heartbeat every 15 s.
   * @default 45000
   */
  idleTimeoutMs?: number | undefined;
  /** How many attempts in a row may fail before the stream does. @default Infinity */
  maxRetries?: number | undefined;
  /** The time for one attempt to connect. @default that of the client */
  timeoutMs?: number | undefined;
  headers?: Readonly<Record<string, string>> | undefined;
  /** Called each time the connection is open. */
  onOpen?: (() => void) | undefined;
  /**
   * Called each time the connection is lost or cannot be opened, with the error, if any, and the time until
   * the next attempt.
   */
  onDisconnect?: ((event: { error: unknown; retryInMs: number }) => void) | undefined;
}
