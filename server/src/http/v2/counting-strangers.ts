import type { FastifyReply, FastifyRequest } from 'fastify';
import { ClientError } from '../../errors.ts';
import type { App } from '../route.ts';

/**
 * Does the work; who is refused by it for a wrong signature is counted, and refused for that when it is too
 * often.
 */
export async function countingStrangers<Result>(
  { limits }: App,
  request: FastifyRequest,
  reply: FastifyReply,
  work: () => Promise<Result>,
): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof ClientError && error.code === 'invalid_signature')
      await limits.unsigned(request, reply);
    throw error;
  }
}
