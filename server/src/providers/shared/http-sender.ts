import { isRejection, type Rejection, type Sender, type SendOutcome } from '../provider.ts';
import type { HttpAnswer } from './transport.ts';
import { hiderOf } from './vendor-words.ts';

/**
 * A sender of one request for each message: `build` makes it or rejects the message, `exchange` has it
 * answered, `classify` says what that means. Secrets are taken out of what the vendor says before `classify`
 * sees it. `exchange` never rejects, as an endpoint's `request`.
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
  classify: (answer: HttpAnswer) => SendOutcome;
}): Sender<Message> {
  // What ends each of them, early if need be. Not a race with one promise for all: that would keep a note of
  // every send for ever.
  const inFlight = new Set<(outcome: SendOutcome) => void>();
  const hiderFor = typeof secrets === 'function' ? remembering(secrets) : constant(hiderOf(secrets));
  let closed = false;
  let landed = () => {}; // when the last of them has ended

  function send(message: Message): Promise<SendOutcome> {
    if (closed) return Promise.resolve(closing({ ambiguous: false }));
    const request = build(message);
    if (isRejection(request)) return Promise.resolve(request);
    // Not in an executor: what that sees is kept until the answer, and so would be the request.
    const { promise, resolve, reject } = Promise.withResolvers<SendOutcome>();
    inFlight.add(resolve);
    // One promise for all that follows, as there are as many as messages.
    const answered = (answer: HttpAnswer) => {
      leave(resolve);
      try {
        resolve(classify(concealed(answer, () => hiderFor(message))));
      } catch (error) {
        reject(error);
      }
    };
    exchange(request, message).then(answered, (error) => {
      leave(resolve);
      reject(error);
    });
    return promise;
  }

  function leave(resolve: (outcome: SendOutcome) => void): void {
    inFlight.delete(resolve);
    if (closed && inFlight.size === 0) landed();
  }

  async function close({ graceMs = 10_000 }: { graceMs?: number } = {}): Promise<void> {
    closed = true;
    if (inFlight.size === 0) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const before = landed;
    landed = () => {
      before();
      resolve();
    };
    const impatience = setTimeout(() => {
      for (const end of inFlight) end(closing({ ambiguous: true }));
      landed();
    }, graceMs);
    await promise;
    clearTimeout(impatience);
  }

  return { concurrency, send, close };
}

/** Made anew only when the secrets have changed: mostly they are those of the message before. */
function remembering<Message>(
  secretsFor: (message: Message) => readonly string[],
): (message: Message) => (text: string) => string {
  let known: readonly string[] = [];
  let hider = hiderOf(known);
  return (message) => {
    const secrets = secretsFor(message);
    if (secrets.length !== known.length || secrets.some((secret, index) => secret !== known[index])) {
      known = secrets;
      hider = hiderOf(secrets);
    }
    return hider;
  };
}

function constant<Value>(value: Value): () => Value {
  return () => value;
}

/** What is said of a message for which a sender that is being closed has no time. */
export function closing({ ambiguous }: { ambiguous: boolean }): SendOutcome {
  return { kind: 'retry', reason: 'the connection is being closed', ambiguous };
}

/** The answer without what `hider` takes out of a text. */
export function concealed(answer: HttpAnswer, hider: () => (text: string) => string): HttpAnswer {
  if ('error' in answer) {
    const { error, written } = answer;
    return { error: { ...error, message: hider()(error.message) }, written };
  }
  return answer.text === '' ? answer : { ...answer, text: hider()(answer.text) };
}
