import { isRejection, type Outcome, type Rejection, type Sender } from './provider.ts';
import type { HttpAnswer } from './transport.ts';
import { hiderOf } from './vendor-words.ts';

/**
 * A sender of one request for each message: `build` makes it or rejects the message, `exchange` has it answered, `classify` says what that
 * means. Secrets are taken out of what the vendor says before `classify` sees it. `exchange` never rejects, as an endpoint's `request`.
 */
export function createHttpSender<Message, Request extends object>({
  concurrency,
  secrets,
  build,
  exchange,
  classify,
}: {
  concurrency: number;
  /** A careless vendor may repeat what it was sent. Those of the config, or of one message. */
  secrets: readonly string[] | ((message: Message) => readonly string[]);
  build: (message: Message) => Request | Rejection;
  exchange: (request: Request, message: Message) => Promise<HttpAnswer>;
  classify: (answer: HttpAnswer) => Outcome;
}): Sender<Message> {
  // By what ends each of them early. Not a race with one promise for all: that would keep a note of every send for ever.
  const inFlight = new Map<Promise<Outcome>, (outcome: Outcome) => void>();
  const hiderFor =
    typeof secrets === 'function'
      ? (message: Message) => hiderOf(secrets(message))
      : constant(hiderOf(secrets));
  let closed = false;

  function send(message: Message): Promise<Outcome> {
    if (closed) return Promise.resolve({ kind: 'retry', reason: CLOSING, ambiguous: false });
    const request = build(message);
    if (isRejection(request)) return Promise.resolve(request);
    const { promise, resolve, reject } = Promise.withResolvers<Outcome>();
    inFlight.set(promise, resolve);
    exchange(request, message)
      .then((answer) => resolve(classify(concealed(answer, () => hiderFor(message)))))
      .catch(reject)
      .finally(() => inFlight.delete(promise));
    return promise;
  }

  async function close({ graceMs = 10_000 }: { graceMs?: number } = {}): Promise<void> {
    closed = true;
    const breakOff = () => {
      for (const end of inFlight.values()) end({ kind: 'retry', reason: CLOSING, ambiguous: true });
    };
    const impatience = setTimeout(breakOff, graceMs);
    await Promise.allSettled(inFlight.keys());
    clearTimeout(impatience);
  }

  return { concurrency, send, close };
}

function constant<Value>(value: Value): () => Value {
  return () => value;
}

const CLOSING = 'the connection is being closed';

function concealed(answer: HttpAnswer, hider: () => (text: string) => string): HttpAnswer {
  if ('error' in answer) {
    const { error, written } = answer;
    return { error: { ...error, message: hider()(error.message) }, written };
  }
  return answer.text === '' ? answer : { ...answer, text: hider()(answer.text) };
}
