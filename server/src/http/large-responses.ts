import type { IncomingMessage } from 'node:http';
import type { FastifyReply } from 'fastify';
import type { Config } from '../config.ts';
import { ClientError } from '../errors.ts';
import type { JsonText } from '../lib/json-text.ts';
import { budgetBytes, MemoryBudget, releaseAtEnd, SMALL_BYTES, shareholder } from './memory-budget.ts';

/**
 * Call this before a JSON response is sent. Reserves memory for a large one, until it has been sent or its
 * client has disconnected. Throws `rate_limit_exceeded` or `service_unavailable` if it does not fit and is
 * that of a read, by default of a GET.
 */
export type ResponseHolder = (reply: FastifyReply, body: JsonText, isRead?: boolean) => void;

/**
 * Holds the large responses of a server within a budget. Without one, clients that do not read could have any
 * number of them in memory. Such clients are disconnected after `stalledMs`, or twice that if some of the
 * response has left since; after `crowdedMs` if the budget is exceeded.
 */
export function responseHolder(
  { config }: { config: Config },
  addressOf: (request: IncomingMessage) => string,
  { stalledMs, crowdedMs }: { stalledMs: number; crowdedMs: number },
): ResponseHolder {
  const budget = new MemoryBudget(budgetBytes(config), 'responses');
  return (reply, body, isRead = reply.request.method === 'GET') => {
    const { request, raw } = reply;
    const bytes = bytesOf(body);
    if (bytes <= SMALL_BYTES || request.method === 'HEAD') return;
    // Only a client that reads nothing times out. Node sets another timeout when the response has ended.
    raw.setTimeout(stalledMs);
    // What a write has done is done, so its response is sent in any case. Most return what was in the body,
    // whose memory is held as long as the response.
    const added = isRead ? bytes : bytes - (request.heldBody?.bytes ?? 0);
    if (added <= SMALL_BYTES) return;
    const credential = shareholder(request, addressOf);
    try {
      releaseAtEnd(budget.take(credential, added), raw);
    } catch (error) {
      if (isRead || !(error instanceof ClientError)) throw error;
      raw.setTimeout(crowdedMs);
      releaseAtEnd(budget.takeAnyway(credential, added), raw);
    }
  };
}

function bytesOf(body: JsonText): number {
  // A character has at most three bytes. So small texts, which are nearly all, are not measured.
  return typeof body === 'string' && body.length > SMALL_BYTES / 3 ? Buffer.byteLength(body) : body.length;
}
