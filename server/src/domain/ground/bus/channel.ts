import type { WireFormat } from './wire.ts';

/** A way to other nodes. The link (link.ts) opens a channel, and another one whenever it ends. */
export interface BusTransport {
  readonly name: 'postgres' | 'nats';
  /** Messages published within this time are sent together. */
  readonly gatherMs: number;
  /**
   * Opens a channel. Resolves when it receives: `onPayload` gets the payloads of other nodes and may get
   * those of this node. Rejects within seconds if the server does not respond.
   */
  open(onPayload: (payload: string) => void): Promise<Channel>;
  /** Whether the server rejected these messages, and would do so again. */
  isRejection(error: unknown): boolean;
}

/** A connection that sends and receives. */
export interface Channel {
  readonly format: WireFormat;
  /** Resolves when the connection has ended, whatever the reason. */
  readonly ended: Promise<void>;
  /** Resolves when the server has the payloads. */
  send(payloads: readonly string[]): Promise<void>;
  /**
   * Resolves when the server has responded, with a time before that: everything that was sent until then
   * has arrived. Unix milliseconds of the database's clock.
   */
  probe(): Promise<number>;
  /** Closes a connection that may be broken, without waiting. */
  drop(): void;
}
