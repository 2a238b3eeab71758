import type { FastifyReply, FastifyRequest } from 'fastify';
import { ClientError } from '../../errors.ts';
import type { App } from '../route.ts';
import { UnknownSignature } from './webhooks-of-cells.ts';

/** Runs the work and counts wrong and unknown signatures by address. Too many of them are a 429. */
export async function countingStrangers<Result>(
  { limits }: App,
  request: FastifyRequest,
  reply: FastifyReply,
  work: () => Promise<Result>,
): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    const isInvalid = error instanceof ClientError && error.code === 'invalid_signature';
    if (isInvalid || error instanceof UnknownSignature) await limits.unsigned(request, reply);
    throw error;
  }
}
