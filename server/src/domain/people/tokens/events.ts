import type { NewEvent } from '../../ground/events/record.ts';

interface Subject {
  projectId: string;
  userId: string;
  channel: string;
}

/** The event of a token that was saved: which one, but not what it is. */
export function saved(subject: Subject, tokenId: string): NewEvent {
  return event('token.saved', subject, tokenId);
}

/** The event of a token that was discarded; `why`, where that was not by a request. */
export function discarded(
  subject: Subject,
  tokenId: string,
  why: { log?: string; code?: string } = {},
): NewEvent {
  return event('token.discarded', subject, tokenId, why);
}

function event(
  type: 'token.saved' | 'token.discarded',
  { projectId, userId, channel }: Subject,
  tokenId: string,
  more: { log?: string; code?: string } = {},
): NewEvent {
  return {
    projectId,
    type,
    userIds: [userId],
    details: { ...more, context: { channel, token_id: tokenId } },
  };
}
