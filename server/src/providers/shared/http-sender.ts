import { isRejection, type Rejection, type Sender, type SendOutcome } from '../provider.ts';
import type { HttpResult } from './transport.ts';
import { redactor } from './vendor-text.ts';

/**
 * Creates a sender of one request per message. `build` returns the request or rejects the message, `exchange`
 * sends the request, and `classify` turns the response into an outcome. Secrets are redacted from the
 * response before `classify` sees it. `exchange` must not reject.
 */
export function createHttpSender<Message, Request extends object>({
  concurrency,
  secrets,
  build,
  exchange,
  classify,
  disconnect = async () => {},
}: {
  concurrency: number;
  /** The credentials to redact, because a vendor may echo them: those of the config, or of one message. */
  secrets: readonly string[] | ((message: Message) => readonly string[]);
  build: (message: Message) => Request | Rejection;
  exchange: (request: Request, message: Message) => Promise<HttpResult>;
  classify: (response: HttpResult) => SendOutcome;
  /** Closes its own connections, after the last send. */
  disconnect?: () => Promise<void>;
}): Sender<Message> {
  // Ends a send early, one entry per message. Racing each against one shared promise would keep every send in
  // memory for the lifetime of the sender.
  const inFlight = new Set<(outcome: SendOutcome) => void>();
  const redactorFor = typeof secrets === 'function' ? cachedRedactor(secrets) : constant(redactor(secrets));
  let closed = false;
  let onAllEnded = () => {}; // called when the last send has ended

  function send(message: Message): Promise<SendOutcome> {
    if (closed) return Promise.resolve(closing({ ambiguous: false }));
    const request = build(message);
    if (isRejection(request)) return Promise.resolve(request);
    // Not in an executor, which would keep the request in memory until the response.
    const { promise, resolve, reject } = Promise.withResolvers<SendOutcome>();
    inFlight.add(resolve);
    // Attached in one `then`, because each promise costs time for every message.
    const received = (response: HttpResult) => {
      leave(resolve);
      try {
        resolve(classify(redacted(response, () => redactorFor(message))));
      } catch (error) {
        reject(error);
      }
    };
    exchange(request, message).then(received, (error) => {
      leave(resolve);
      reject(error);
    });
    return promise;
  }

  function leave(resolve: (outcome: SendOutcome) => void): void {
    inFlight.delete(resolve);
    if (closed && inFlight.size === 0) onAllEnded();
  }

  async function close({ graceMs = 10_000 }: { graceMs?: number } = {}): Promise<void> {
    closed = true;
    if (inFlight.size > 0) await lastSends(graceMs);
    await disconnect();
  }

  async function lastSends(graceMs: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const previous = onAllEnded;
    onAllEnded = () => {
      previous();
      resolve();
    };
    const timer = setTimeout(() => {
      for (const end of inFlight) end(closing({ ambiguous: true }));
      onAllEnded();
    }, graceMs);
    await promise;
    clearTimeout(timer);
  }

  return { concurrency, send, close };
}

/** Rebuilds the redactor only when the secrets change: most messages have those of the message before. */
function cachedRedactor<Message>(
  secretsFor: (message: Message) => readonly string[],
): (message: Message) => (text: string) => string {
  let known: readonly string[] = [];
  let redact = redactor(known);
  return (message) => {
    const secrets = secretsFor(message);
    if (secrets.length !== known.length || secrets.some((secret, index) => secret !== known[index])) {
      known = secrets;
      redact = redactor(secrets);
    }
    return redact;
  };
}

function constant<Value>(value: Value): () => Value {
  return () => value;
}

/** The outcome of a message that a closing sender cannot finish. */
export function closing({ ambiguous }: { ambiguous: boolean }): SendOutcome {
  return { kind: 'retry', reason: 'the connection is being closed', ambiguous };
}

/** Returns the response with the secrets redacted. */
export function redacted(response: HttpResult, redact: () => (text: string) => string): HttpResult {
  if ('error' in response) {
    const { error, written } = response;
    return { error: { ...error, message: redact()(error.message) }, written };
  }
  return response.text === '' ? response : { ...response, text: redact()(response.text) };
}
