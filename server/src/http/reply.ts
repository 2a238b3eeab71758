import type { FastifyReply } from 'fastify';
import { problemsIn } from '../contract/validation.ts';

/** A reply that is JSON text already: sent as it is. */
export interface RawJson {
  readonly [RAW]: string | Buffer;
}
const RAW: unique symbol = Symbol('json');

/** Marks JSON text as a handler's answer. */
export function rawJson(text: string | Buffer): RawJson {
  return { [RAW]: text };
}

/** What a handler answered, as the text to send; empty where there is nothing to say. */
export function toJson(answer: unknown): string | Buffer {
  if (answer === undefined || answer === null) return '';
  return isRaw(answer) ? answer[RAW] : JSON.stringify(answer);
}

/** Sends JSON text; nothing but the status where it is empty. */
export function sendJson(reply: FastifyReply, status: number, body: string | Buffer): FastifyReply {
  reply.code(status);
  if (body.length === 0) return reply.send();
  return reply.header('content-type', 'application/json; charset=utf-8').send(body);
}

/**
 * A function that throws for an answer that is not what its route says: a bug, which tests should not have to
 * look for.
 */
export function replyChecker(operationId: string, schema: object): (answer: unknown) => void {
  let check: ReturnType<typeof problemsIn> | undefined;
  return (answer) => {
    check ??= problemsIn(schema); // few of the schemas are used in a test
    const text = toJson(answer).toString();
    const problems = check(text === '' ? undefined : JSON.parse(text));
    if (problems.length > 0)
      throw new Error(`${operationId} answers what its schema refuses: ${problems.join('; ')}`);
  };
}

function isRaw(answer: unknown): answer is RawJson {
  return typeof answer === 'object' && answer !== null && RAW in answer;
}
