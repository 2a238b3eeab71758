import type { Frame } from '../../domain/after/realtime/frame.ts';
import type { CloseReason, Connection } from '../../domain/after/realtime/subscription.ts';
import { readJson } from '../../lib/exact-numbers.ts';
import { newId } from '../../lib/ids.ts';
import { MAX_PENDING_BYTES } from '../realtime/pending.ts';

/** An event of an inbox, as the contract names its members. */
export interface InboxEventSource {
  id: string;
  name: string;
  timestamp: string;
  notification_id: string | null;
  client_id: string | null;
  /** Undefined if it has to be read. */
  notification?: object | undefined;
}

/**
 * The changes of a user's inbox, in order. Events wait while the client reads earlier ones; if too much
 * waits, the connection is closed as too slow. It is no generator, because one that waits for the next event
 * cannot be ended.
 */
export class InboxEvents implements Connection, AsyncIterableIterator<InboxEventSource> {
  readonly kind = 'socket';
  readonly projectId: string;
  readonly userId: string;
  /** Called when the client stops reading. */
  onEnd: () => void = () => {};
  readonly #onClose: (reason: CloseReason) => void;
  readonly #waiting: { event: InboxEventSource; characters: number }[] = [];
  #characters = 0;
  #ended = false;
  #take: ((result: IteratorResult<InboxEventSource>) => void) | undefined;

  constructor(user: { projectId: string; userId: string }, onClose: (reason: CloseReason) => void) {
    this.projectId = user.projectId;
    this.userId = user.userId;
    this.#onClose = onClose;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<InboxEventSource>> {
    const next = this.#waiting.shift();
    if (next !== undefined) {
      this.#characters -= next.characters;
      return Promise.resolve({ value: next.event, done: false });
    }
    if (this.#ended) return Promise.resolve(END);
    return new Promise((resolve) => {
      this.#take = resolve;
    });
  }

  return(): Promise<IteratorResult<InboxEventSource>> {
    if (!this.#ended) {
      this.#ended = true;
      this.#waiting.length = 0;
      this.#take?.(END);
      this.onEnd();
    }
    return Promise.resolve(END);
  }

  send({ json }: Frame): void {
    this.#push(eventOf(json), json.length);
  }

  begin(): void {} // the protocol has no cursor

  resync(): void {
    const timestamp = new Date().toISOString();
    this.#push({ id: newId(), name: 'resync', timestamp, notification_id: null, client_id: null }, 0);
  }

  drained(): undefined {
    return undefined;
  }

  close(reason: CloseReason): void {
    void this.return();
    this.#onClose(reason);
  }

  #push(event: InboxEventSource, characters: number): void {
    if (this.#ended) return;
    const take = this.#take;
    if (take !== undefined) {
      this.#take = undefined;
      take({ value: event, done: false });
    } else if (this.#characters + characters > MAX_PENDING_BYTES || this.#waiting.length >= MAX_WAITING) {
      this.close('slow');
    } else {
      this.#characters += characters;
      this.#waiting.push({ event, characters });
    }
  }
}

const END = { value: undefined, done: true } as const;
const MAX_WAITING = 1_000;

/** The event of a frame such as `{"name": "notifications/read/all", …}`. */
function eventOf(json: string): InboxEventSource {
  const { id, name, timestamp, data } = readJson(json) as {
    id: string;
    name: string;
    timestamp: string;
    data: { id: string; client_id?: string; notification?: object };
  };
  const [, action = '', all] = name.split('/');
  return {
    id,
    name: all === undefined ? action : `${action}_${all}`,
    timestamp,
    notification_id: all === undefined ? data.id : null,
    client_id: data.client_id ?? null,
    notification: data.notification,
  };
}
