import type { BelfryError } from '@belfry/sdk';
import { isHidden, isOffline } from './browser.ts';
import { deferred } from './deferred.ts';
import { parse } from './parse.ts';
import type { Ending, LiveEvent, LiveOptions, Opening, Session, Transport } from './transport.ts';

const CONNECT_TIMEOUT_MS = 5_000;
// The server of an app may make the token slowly.
const TOKEN_TIMEOUT_MS = 15_000;
const IDLE_TIMEOUT_MS = 40_000; // two heartbeats and a half
const FIRST_RETRY_MS = 1_000;
const LONGEST_RETRY_MS = 30_000;
// How long a transport that works is used before the better ones are tried.
const REMEMBERED_MS = 10 * 60_000;
// A proxy may accept WebSockets and cut them. After so many short ones in a row, use the next transport.
const SHORT_LIVED_MS = 10_000;
const MAX_SHORT_LIVED = 3;

/**
 * Follows the changes of a user's notifications until it is closed: over a WebSocket, or else Server-Sent
 * Events, or else by polling. It reconnects for ever and resumes after the last event.
 */
export class Live implements Session {
  readonly options: LiveOptions;
  readonly #stop = new AbortController();
  #wake = new AbortController();
  lastEventId: string | undefined;
  readonly tokenTimeoutMs = TOKEN_TIMEOUT_MS;
  readonly idleTimeoutMs = IDLE_TIMEOUT_MS;
  #hasConnected = false;
  #rung: number;
  #rungSince: number;

  constructor(options: LiveOptions) {
    this.options = options;
    const remembered = recall(options.baseUrl);
    const rung = options.transports.indexOf(remembered?.transport as Transport);
    this.#rung = Math.max(0, rung);
    this.#rungSince = remembered?.at ?? Date.now();
    const { signal } = this.#stop;
    // Ends a wait, and a connection that the browser reports as lost.
    const wake = () => {
      this.#wake.abort();
      this.#wake = new AbortController();
    };
    for (const name of ['online', 'offline', 'pageshow'])
      globalThis.addEventListener?.(name, wake, { signal });
    globalThis.document?.addEventListener('visibilitychange', wake, { signal });
    void this.#run();
  }

  close(): void {
    this.#stop.abort();
    this.#wake.abort();
  }

  async #run(): Promise<void> {
    const { transports, onState, onEnd } = this.options;
    const { signal } = this.#stop;
    let failures = 0;
    let shortLived = 0;
    while (!signal.aborted) {
      if (isOffline() || (isHidden() && transports[this.#rung] !== 'websocket' && this.#hasConnected)) {
        if (isOffline()) onState('offline', undefined);
        await this.sleep(LONGEST_RETRY_MS);
        failures = 0;
        continue;
      }
      if (Date.now() - this.#rungSince > REMEMBERED_MS) this.#use(0);
      const first = this.#rung;
      let ending: Ending = { kind: 'failed' };
      // Without a response, the next transport shows whether the server is down.
      do ending = await this.#connect(transports[this.#rung] ?? 'polling');
      while (
        ending.kind === 'unsupported' &&
        this.#rung + 1 < transports.length &&
        this.#use(this.#rung + 1)
      );
      if (ending.kind === 'ended') onEnd();
      if (signal.aborted) return;
      // Whether a transport works is not known without a connection, and after the token was rejected. None
      // works behind the login page of a network.
      if (ending.kind !== 'lost') this.#use(ending.kind === 'unsupported' ? 0 : first);
      if (ending.kind === 'lost') {
        failures = 0;
        shortLived = ending.lastedMs < SHORT_LIVED_MS ? shortLived + 1 : 0;
        if (shortLived >= MAX_SHORT_LIVED && this.#rung + 1 < transports.length && !isOffline()) {
          this.#use(this.#rung + 1);
          shortLived = 0;
        }
      } else failures += 1;
      if (isOffline()) continue;
      onState(ending.kind === 'unauthorized' ? 'unauthorized' : 'connecting', undefined);
      const woken = await this.sleep(backoffMs(failures + shortLived));
      if (woken) failures = 0;
    }
  }

  #use(rung: number): boolean {
    this.#rung = rung;
    this.#rungSince = Date.now();
    return true;
  }

  connected(transport: Transport, opening?: Opening): void {
    this.#hasConnected = true;
    remember(this.options.baseUrl, { transport, at: this.#rungSince });
    this.options.onState(transport === 'polling' ? 'polling' : 'live', transport);
    if (transport !== 'polling') this.options.onReady(opening);
  }

  get mayPoll(): boolean {
    const isDue = Date.now() - this.#rungSince < REMEMBERED_MS;
    return isDue && !this.#stop.signal.aborted && !isHidden() && !isOffline();
  }

  async #connect(transport: Transport): Promise<Ending> {
    if (transport === 'websocket') return this.#overWebSocket();
    const fallback = await import('./fallback.ts').catch(() => undefined); // loaded with the next attempt
    if (fallback === undefined) return { kind: 'failed' };
    return transport === 'sse' ? fallback.overSse(this) : fallback.byPolling(this);
  }

  async #overWebSocket(): Promise<Ending> {
    if (globalThis.WebSocket === undefined) return { kind: 'unsupported' };
    const url = new URL(`${this.options.baseUrl.replace(/^http/, 'ws')}/notifications/stream`);
    url.searchParams.set('last_event_id', this.lastEventId ?? '');
    let readyAt = 0;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const { promise, resolve } = deferred<number>();
    const limit = (ms: number) => {
      clearTimeout(timer);
      timer = setTimeout(() => resolve(0), ms);
    };
    limit(TOKEN_TIMEOUT_MS);
    const unwatch = this.watch(() => resolve(0));
    try {
      const given = await Promise.race([this.options.token(), promise]);
      if (typeof given !== 'string') return { kind: 'failed' }; // the token did not come in time
      const token = given.trim();
      // No JWT: browsers reject it as the name of a protocol.
      if (/[^\w.-]/.test(token)) return { kind: 'unauthorized' };
      url.searchParams.set('snapshot', String(this.options.listed()));
      const socket = new WebSocket(url, ['belfry.v1', `belfry.jwt.${token}`]);
      limit(CONNECT_TIMEOUT_MS);
      socket.onmessage = ({ data }) => {
        limit(IDLE_TIMEOUT_MS);
        const message = parse<Message>(data);
        if (message === undefined) return;
        if (message.id !== undefined) this.lastEventId = message.id;
        if (message.event === 'ready') {
          readyAt = Date.now();
          this.connected('websocket', message.data);
        } else if (message.data !== undefined) this.options.onEvent(message.data);
      };
      socket.onclose = ({ code }) => resolve(code);
      const code = await promise;
      socket.onmessage = null;
      socket.close();
      if (code === 4004) return { kind: 'ended' };
      if (readyAt > 0) return { kind: 'lost', lastedMs: Date.now() - readyAt };
      return { kind: isOffline() ? 'failed' : 'unsupported' };
    } catch (error) {
      // The token could not be fetched, or is that of another user.
      return { kind: (error as Partial<BelfryError>).status === 401 ? 'unauthorized' : 'failed' };
    } finally {
      unwatch();
      clearTimeout(timer);
    }
  }

  watch(lost: () => void): () => void {
    const over = new AbortController();
    const { signal } = over;
    globalThis.addEventListener?.('offline', lost, { signal });
    this.#stop.signal.addEventListener('abort', lost, { signal });
    if (isOffline()) lost();
    return () => over.abort();
  }

  sleep(ms: number): Promise<boolean> {
    const { signal } = this.#wake;
    return new Promise((resolve) => {
      const timer = setTimeout(() => resolve(false), ms);
      signal.addEventListener('abort', () => {
        clearTimeout(timer);
        resolve(true);
      });
    });
  }
}

type Message =
  | { id: string; event: 'ready'; data?: Opening }
  | {
      id?: string;
      event: 'heartbeat' | 'resync' | `notifications/${string}` | 'inbox/theme';
      data?: LiveEvent;
    };

/** Nine tenths of the time are random, so that the clients of a server do not return at the same moment. */
export function backoffMs(failures: number): number {
  return Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** failures) * (0.1 + Math.random() * 0.9);
}

interface Remembered {
  transport: Transport;
  at: number;
}

const keyOf = (baseUrl: string) => `belfry-inbox:${baseUrl}`;

function recall(baseUrl: string): Remembered | undefined {
  try {
    return JSON.parse(sessionStorage.getItem(keyOf(baseUrl)) ?? '') as Remembered;
  } catch {
    return undefined; // nothing is stored, or the page may not store anything
  }
}

function remember(baseUrl: string, value: Remembered): void {
  try {
    sessionStorage.setItem(keyOf(baseUrl), JSON.stringify(value));
  } catch {
    // The page may not store anything: the transports are tried in order next time.
  }
}
