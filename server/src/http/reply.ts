import { finished, Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';
import type { Page } from '../contract/common.ts';
import { problemsIn } from '../contract/validation.ts';
import type { JsonText } from '../lib/json-text.ts';

/** A response that is JSON text, which is sent unchanged. */
export interface RawJson {
  readonly [RAW]: JsonText;
}
const RAW: unique symbol = Symbol('json');

/** Marks JSON text as the result of a handler. */
export function rawJson(text: JsonText): RawJson {
  return { [RAW]: text };
}

/** Marks a page whose records are JSON texts as the result of a handler. */
export function rawPage({ data, links }: Page<string>): RawJson {
  return rawJson(`{"data":[${data.join(',')}],"links":${JSON.stringify(links)}}`);
}

/** The result of a handler as the text to send; empty if there is none. */
export function toJson(result: unknown): JsonText {
  if (result === undefined || result === null) return '';
  return isRaw(result) ? result[RAW] : JSON.stringify(result);
}

/** Sends JSON text, or only the status if it is empty. Throws if it is large and memory is short. */
export function sendJson(reply: FastifyReply, status: number, body: JsonText): FastifyReply {
  reply.server.holdResponse(reply, body);
  reply.code(status);
  if (body.length === 0) return reply.send();
  reply.header('content-type', 'application/json; charset=utf-8');
  if (typeof body === 'string') return reply.send(body);
  if (body.length < STREAMED_FROM_BYTES) return reply.send(body.toBuffer());
  return reply.header('content-length', body.length).send(Readable.from(body.parts));
}

// One write of a joined text is cheaper than a stream, up to the size that takes a millisecond to copy.
const STREAMED_FROM_BYTES = 1024 * 1024;

/** How long a client may read nothing. Longer than a statement may take to read the next part. */
export const STALLED_MS = 60_000;

/**
 * Sends a body part by part, each when the client has read the one before. Resolves at the end. Disconnects a
 * client that reads nothing for a minute.
 */
export async function sendParts(
  reply: FastifyReply,
  mediaType: string,
  parts: AsyncIterable<string>,
  { stalledMs = STALLED_MS }: { stalledMs?: number } = {},
): Promise<void> {
  reply.code(200).header('content-type', mediaType);
  reply.raw.setTimeout(stalledMs);
  // Fastify would read all parts for HEAD, and discard them.
  const sent = reply.request.method === 'HEAD' ? [] : parts;
  reply.send(Readable.from(sent, { highWaterMark: 1 }));
  // Also resolves if the client disconnects, or had disconnected before.
  await new Promise<void>((resolve) => finished(reply.raw, () => resolve()));
}

/**
 * Returns a function that throws if a result does not match the schema of its route, so that tests find such
 * bugs.
 */
export function replyChecker(operationId: string, schema: object): (result: unknown) => void {
  const check = problemsIn(schema);
  return (result) => {
    const text = toJson(result).toString();
    const problems = check(text === '' ? undefined : JSON.parse(text));
    if (problems.length > 0)
      throw new Error(`the response of ${operationId} does not match its schema: ${problems.join('; ')}`);
  };
}

function isRaw(result: unknown): result is RawJson {
  return typeof result === 'object' && result !== null && RAW in result;
}
