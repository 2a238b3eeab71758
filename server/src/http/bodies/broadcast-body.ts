import type { FastifyRequest } from 'fastify';
import type { RawBroadcast } from '../../domain/line/broadcasts/stored-broadcast.ts';
import { jsonMember } from '../../lib/json-member.ts';
import { bodyBytesForHeap } from '../memory-budget.ts';

// The longest content has 10,485,760 characters. JSON can spell one as \uXXXX\uXXXX, which makes 126 MB, and
// overrides and recipients come on top. V8 ends the process when a text does not fit the heap, so the limit
// is lower where the heap is small.
export const BROADCAST_BODY_BYTES = Math.min(192 * 1024 * 1024, bodyBytesForHeap());

/** Returns the texts of the broadcast in a body. Its route has `recipients` as `longArray`. */
export function rawBroadcast({
  longArray,
  bodyJson: json,
  bodyTexts: members,
}: FastifyRequest): RawBroadcast {
  const recipients = longArray ?? members?.get('recipients') ?? (json && jsonMember(json, 'recipients'));
  return { recipients, members };
}
