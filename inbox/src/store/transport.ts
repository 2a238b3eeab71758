import type { Transport as Api, InboxIntegrationConfig, UserPreferences } from '@belfry/sdk';
import type { Notification } from './types.ts';

export type Transport = 'websocket' | 'sse' | 'polling';
export type Connection = 'connecting' | 'live' | 'polling' | 'offline' | 'unauthorized';

/** An event of the stream. Others than these are ignored. */
export type LiveEvent =
  | { name: 'resync' }
  | { name: 'inbox/theme'; data: InboxIntegrationConfig }
  | {
      name: `notifications/${string}`;
      timestamp: string;
      data: { id: string; client_id?: string; notification?: Notification };
    };

/** The state of the inbox with which a stream begins. A resumed stream has only the time and the config. */
export interface Opening {
  /** The time of the server. Servers of earlier releases leave it out. */
  readonly now?: string;
  /** Left out if it is long. */
  readonly config?: InboxIntegrationConfig;
  readonly counts?: { readonly unread: number; readonly unseen: number };
  /** Left out, as the preferences, if none were requested or they are long. */
  readonly notifications?: readonly Notification[];
  readonly has_more?: boolean;
  readonly preferences?: UserPreferences;
}

export interface LiveOptions {
  api: Api;
  baseUrl: string;
  token: () => string | Promise<string>;
  /** The ways to connect, the best one first. */
  transports: readonly Transport[];
  onEvent: (event: LiveEvent) => void;
  onState: (connection: Connection, transport: Transport | undefined) => void;
  /** Called when the user was deleted. A further request would restore it. */
  onEnd: () => void;
  /** How many notifications the state of the inbox lists when a stream opens. */
  listed: () => number;
  /** Called when events arrive from now on, with the state of the inbox, if the server sent it. */
  onReady: (opening: Opening | undefined) => void;
  /** Fetches what is shown. Called regularly if no stream works. */
  poll: () => Promise<void>;
}

/** How an attempt to connect ended. */
export type Ending =
  /** The stream was open for this time. */
  | { kind: 'lost'; lastedMs: number }
  /** No response: the server or the network is down, or a proxy does not support this transport. */
  | { kind: 'failed' }
  /** The transport does not work here. */
  | { kind: 'unsupported' }
  | { kind: 'unauthorized' }
  /** The user was deleted. */
  | { kind: 'ended' };

/** What a transport uses of the one that follows the changes. */
export interface Session {
  readonly options: LiveOptions;
  /** How long a transport waits for the token. */
  readonly tokenTimeoutMs: number;
  /** Without data for this time, a stream is lost. */
  readonly idleTimeoutMs: number;
  /** Where the next stream continues. */
  lastEventId: string | undefined;
  /** Whether polling goes on: in a visible tab, until it is time to try the better transports. */
  readonly mayPoll: boolean;
  /** Events arrive from now on, from this state on, or the responses of polling. */
  connected(transport: 'websocket' | 'sse', opening: Opening | undefined): void;
  connected(transport: 'polling'): void;
  /**
   * Calls `lost` when the browser is offline and when this is closed. Returns a function that ends this.
   */
  watch(lost: () => void): () => void;
  /** Resolves after the time with false, or earlier with true if the browser reports a change. */
  sleep(ms: number): Promise<boolean>;
}
