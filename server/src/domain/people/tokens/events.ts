import type { NewEvent } from '../../ground/events/record.ts';

interface Subject {
  projectId: string;
  userId: string;
  channel: string;
}

/** Returns the event of a saved token. It has the id, but not the token. */
export function saved(subject: Subject, tokenId: string): NewEvent {
  return event('token.saved', subject, tokenId);
}

/** Returns the event of a discarded token. `why` is given unless a request discarded it. */
export function discarded(
  subject: Subject,
  tokenId: string,
  why: { log?: string | undefined; code?: string | undefined } = {},
): NewEvent {
  return event('token.discarded', subject, tokenId, why);
}

function event(
  type: 'token.saved' | 'token.discarded',
  { projectId, userId, channel }: Subject,
  tokenId: string,
  more: { log?: string | undefined; code?: string | undefined } = {},
): NewEvent {
  return {
    projectId,
    type,
    userIds: [userId],
    details: { ...more, context: { channel, token_id: tokenId } },
  };
}
