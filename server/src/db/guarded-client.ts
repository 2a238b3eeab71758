import type { EventEmitter } from 'node:events';
import type { Duplex } from 'node:stream';
import pg from 'pg';
import { MessageWatch } from './message-watch.ts';

/**
 * What came over a connection is not what a PostgreSQL sends: the connection is closed, its queries are
 * rejected with this.
 */
class ProtocolViolation extends Error {
  readonly code = '08P01'; // PostgreSQL's own code for it: a failed connection, so the request may be repeated
}

/**
 * A client that survives bytes which a faulty network, proxy or pooler has changed. The driver's parser
 * throws for them while it handles the socket's data, where nobody can catch it, and that ends the process.
 * Here it ends the connection.
 */
export class GuardedClient extends pg.Client {
  constructor(config?: string | pg.ClientConfig) {
    super(config);
    const { connection } = this as unknown as { connection: DriverConnection };
    const attach = connection.attachListeners;
    // Called once for a plain socket, or for the TLS socket over it.
    connection.attachListeners = (stream) => attach.call(connection, guarded(stream));
    // The driver listens later than we do, so these look first. They throw into the guard.
    connection.on('errorMessage', refuseForeignError);
    connection.on('readyForQuery', refuseMalformedReady);
    connection.on('commandComplete', refuseMalformedTag);
  }
}

/** The part of the driver's connection that is used here; it has no type of its own. */
interface DriverConnection extends EventEmitter {
  attachListeners(stream: Duplex): void;
}

/** The stream as the driver's parser uses it: bytes that cannot be read destroy the stream. */
function guarded(stream: Duplex): Duplex {
  const fail = (message: string, cause?: unknown) =>
    stream.destroy(new ProtocolViolation(message, { cause }));
  const watch = new MessageWatch(() => fail('the database did not send the rest of a message'));
  stream.once('close', () => watch.stop());
  const on = (event: string, listener: (bytes: Buffer) => void) =>
    stream.on(event, (bytes: Buffer) => {
      try {
        if (event === 'data') watch.take(bytes);
        listener(bytes);
      } catch (cause) {
        if (cause instanceof ProtocolViolation) stream.destroy(cause);
        else fail('the database sent what cannot be read', cause);
      }
    });
  return { on } as Duplex;
}

/**
 * The parser makes an error without these of a message whose type it does not know, and would go on reading.
 */
function refuseForeignError({ severity, code }: { severity?: string; code?: string }): void {
  if (severity === undefined || code === undefined)
    throw new ProtocolViolation('the database sent a message of an unknown type');
}

// A data row whose type was changed to one of these two would end its statement early, and the rest would be
// read as the result of the next one.
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
