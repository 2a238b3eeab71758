import type { Event } from '../../../contract/event.ts';
import type { Queryable } from '../../../db/client.ts';
import { userNames } from '../identities/user-names.ts';

/** Adds the user of each event, if it has one that is not deleted, by one statement for all. */
export async function nameUsers(db: Queryable, events: readonly Event[]): Promise<void> {
  const names = await userNames(db, events.flatMap(userOf));
  if (names.size === 0) return;
  for (const event of events) {
    const [userId] = userOf(event);
    const user = userId === undefined ? undefined : names.get(userId);
    if (user !== undefined) event.user = user;
  }
}

function userOf({ context }: Event): string[] {
  const id = context?.user_id;
  return typeof id === 'string' ? [id] : [];
}
