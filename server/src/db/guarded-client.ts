import type { EventEmitter } from 'node:events';
import type { Duplex } from 'node:stream';
import pg from 'pg';
import { type Binding, bindMessage, LongValue } from './long-values.ts';
import { MessageWatch } from './message-watch.ts';

/**
 * A connection received bytes that PostgreSQL does not send. It is closed, and its queries reject with this.
 */
class ProtocolViolation extends Error {
  readonly code = '08P01'; // PostgreSQL's code for it: a failed connection, so the request may be retried
}

/**
 * A client that survives bytes damaged by a network, proxy or pooler. The driver's parser throws for them in
 * the socket's event, where the error ends the process. Here it ends the connection. The client also verifies
 * certificates unless the URL forbids it, and sends a `LongValue` without copying it.
 */
export class GuardedClient extends pg.Client {
  constructor(config?: string | pg.ClientConfig) {
    super(verifying(config));
    const { connection } = this as unknown as { connection: DriverConnection };
    const attach = connection.attachListeners;
    // Called once, for the plain socket or for the TLS socket over it.
    connection.attachListeners = (stream) => attach.call(connection, guarded(stream));
    const bind = connection.bind;
    connection.bind = (binding) => {
      if (!binding.values?.some((value) => value instanceof LongValue)) bind.call(connection, binding);
      else for (const part of bindMessage(binding)) connection._send(part);
    };
    // The driver adds its listeners later, so these run first.
    connection.on('error', (error: Error) => {
      connectionErrors.add(error);
      // After an error of its own, such as a missing password, the driver leaves the socket open. The process
      // could not end before PostgreSQL closes it, a minute later.
      connection.stream.destroy();
    });
    // These throw into the guard.
    connection.on('errorMessage', refuseForeignError);
    connection.on('readyForQuery', refuseMalformedReady);
    connection.on('commandComplete', refuseMalformedTag);
  }
}

/**
 * The driver verifies the certificate for each of these modes, and warns in seven lines that its next version
 * will not. With `verify-full` in their place, it does so in all versions.
 */
function verifying(config?: string | pg.ClientConfig): string | pg.ClientConfig | undefined {
  const url = typeof config === 'string' ? config : config?.connectionString;
  if (url === undefined || /[?&]uselibpqcompat=true/.test(url)) return config;
  const strict = url.replace(/([?&]sslmode=)(?:prefer|require|verify-ca)(?=&|$)/, '$1verify-full');
  return typeof config === 'string' ? strict : { ...config, connectionString: strict };
}

const connectionErrors = new WeakSet<Error>();

/**
 * Whether the error ended a connection or its opening, and is no response of PostgreSQL: the driver has no
 * password, or does not trust the certificate, for example.
 */
export function isConnectionError(error: Error): boolean {
  return connectionErrors.has(error);
}

/** The part of the driver's connection that is used here, which @types/pg does not describe. */
interface DriverConnection extends EventEmitter {
  readonly stream: Duplex;
  attachListeners(stream: Duplex): void;
  bind(binding: Binding): void;
  _send(bytes: Buffer): void;
}

/** The stream for the driver's parser. Invalid bytes destroy it. */
function guarded(stream: Duplex): Duplex {
  const watch = new MessageWatch();
  const on = (event: string, listener: (bytes: Buffer) => void) =>
    stream.on(event, (bytes: Buffer) => {
      try {
        if (event === 'data') watch.take(bytes);
        listener(bytes);
      } catch (cause) {
        stream.destroy(
          cause instanceof ProtocolViolation
            ? cause
            : new ProtocolViolation('the database sent bytes that cannot be read', { cause }),
        );
      }
    });
  return { on } as Duplex;
}

/** For a message of unknown type the parser emits an error without these members, and reads on. */
function refuseForeignError({ severity, code }: { severity?: string; code?: string }): void {
  if (severity === undefined || code === undefined)
    throw new ProtocolViolation('the database sent a message of an unknown type');
}

// A data row damaged into one of these two types would end its statement early, and its rest would become the
// result of the next statement.
function refuseMalformedReady({ length, status }: { length: number; status: string }): void {
  if (length !== READY_BYTES || !/^[ITE]$/.test(status))
    throw new ProtocolViolation('the database sent a malformed end of a statement');
}

function refuseMalformedTag({ text }: { text: string }): void {
  if (!COMMAND_TAG.test(text))
    throw new ProtocolViolation('the database sent a malformed result of a statement');
}

const READY_BYTES = 5;
// `INSERT 0 5`, `SELECT 1`, `CREATE TABLE`, `BEGIN`
const COMMAND_TAG = /^[A-Z][A-Z ]*( \d+){0,2}$/;
