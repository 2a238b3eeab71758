import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Readable } from 'node:stream';
import type { FastifyRequest } from 'fastify';
import type { Config } from '../../config.ts';
import { ClientError } from '../../errors.ts';
import {
  budgetBytes,
  type HeldMemory,
  MemoryBudget,
  releaseAtEnd,
  SMALL_BYTES,
  shareholder,
} from '../memory-budget.ts';
import { ReadTurns } from './read-turns.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** The memory of the body, held until the response and the handler have ended. */
    heldBody: HeldMemory | undefined;
    /** Emits `close` when the response has ended or the client has disconnected. */
    response: ServerResponse | undefined;
  }
}

/** Reads the body of a request, of at most `limit` bytes. */
export type BodyReader = (request: FastifyRequest, payload: Readable, limit: number) => Promise<Buffer>;

/** Reads bodies within the budget of the server. Bodies without a credential count for their address. */
export function bodyReader(
  { config }: { config: Config },
  addressOf: (request: IncomingMessage) => string,
): BodyReader {
  const budget = new MemoryBudget(budgetBytes(config), 'requests');
  return (request, payload, limit) => {
    const credential = shareholder(request, addressOf);
    return readBody(request, payload, { limit, budget, credential });
  };
}

/**
 * Reads the body of a request within the budget. Memory for a large one is reserved before it is read or,
 * without a Content-Length, as it grows. Memory for a small one is reserved when it is complete, so that slow
 * senders hold little. Bodies that do not fit are received and discarded, so that the sender reads the
 * response.
 */
async function readBody(
  request: FastifyRequest,
  payload: Readable,
  { limit, budget, credential }: { limit: number; budget: MemoryBudget; credential: string },
): Promise<Buffer> {
  const length = Number(request.headers['content-length'] ?? Number.NaN);
  if (length > limit) throw new ClientError('payload_too_large');
  if (length > SMALL_BYTES) {
    await orDiscard(payload, () => hold(request, budget.take(credential, length)));
    return readLength(payload, length);
  }
  const body = await readChunks(payload, limit, (bytes) => {
    if (bytes <= SMALL_BYTES) return;
    const { heldBody } = request;
    if (heldBody === undefined) hold(request, budget.take(credential, 2 * bytes));
    else if (bytes > heldBody.bytes) heldBody.grow(2 * bytes);
  });
  if (request.heldBody === undefined) hold(request, budget.take(credential, body.length));
  return body;
}

function hold(request: FastifyRequest, body: HeldMemory): void {
  request.heldBody = body;
  releaseAtEnd(body, request.response);
}

/** Receives and discards the rest of a body. */
export function discardBody(payload: Readable): Promise<void> {
  return received(payload, () => {}, DROPPED);
}

async function orDiscard(payload: Readable, take: () => void): Promise<void> {
  try {
    take();
  } catch (error) {
    await discardBody(payload);
    throw error;
  }
}

/** Reads a body of known length, and copies each byte once. */
async function readLength(payload: Readable, length: number): Promise<Buffer> {
  const body = Buffer.allocUnsafeSlow(length);
  let at = 0;
  await received(payload, (chunk) => {
    at += chunk.copy(body, at);
  });
  return at === length ? body : body.subarray(0, at);
}

/**
 * Reads a body of unknown length. `onLength` is called with the bytes so far. If it throws, the rest is
 * discarded.
 */
async function readChunks(
  payload: Readable,
  limit: number,
  onLength: (bytes: number) => void,
): Promise<Buffer> {
  let chunks: Buffer[] = [];
  let length = 0;
  let lacking: unknown;
  await received(payload, (chunk) => {
    length += chunk.length;
    if (length > limit) throw new ClientError('payload_too_large');
    if (lacking !== undefined) return;
    try {
      onLength(length);
      chunks.push(chunk);
    } catch (error) {
      lacking = error;
      chunks = [];
    }
  });
  if (lacking !== undefined) throw lacking;
  return chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks, length);
}

// Shared by all requests of the process, as the event loop is. Discarding takes little of it: at most 128
// MB/s.
const KEPT = { turns: new ReadTurns({ bytesPerTurn: 1024 * 1024 }), fromBytes: 256 * 1024 };
const DROPPED = { turns: new ReadTurns({ bytesPerTurn: 256 * 1024, pauseMs: 2 }), fromBytes: 0 };

/** Passes all chunks of a stream to `onChunk`. Rejects if the stream breaks off, or if `onChunk` throws. */
function received(
  payload: Readable,
  onChunk: (chunk: Buffer) => void,
  { turns, fromBytes } = KEPT,
): Promise<void> {
  return new Promise((resolve, reject) => {
    let length = 0;
    const onData = (chunk: Buffer) => {
      length += chunk.length;
      if (length > fromBytes) turns.onChunk(payload, chunk.length);
      try {
        onChunk(chunk);
      } catch (error) {
        payload.off('data', onData);
        reject(error);
      }
    };
    // The listeners stay with the body. After the promise is settled, they change nothing.
    payload
      .on('data', onData)
      .on('end', resolve)
      .on('error', (error) => reject(brokenOff(error)))
      .on('close', () => {
        if (!payload.readableEnded) reject(brokenOff());
      });
    payload.resume();
  });
}

function brokenOff(cause?: Error): ClientError {
  return Object.assign(new ClientError('bad_request', ['The request body broke off']), { cause });
}
