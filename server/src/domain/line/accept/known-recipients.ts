import type { Recipient } from '../../../contract/broadcast.ts';
import { notificationId } from '../../../lib/ids.ts';
import { type Identities, identityKeysOf } from '../../ground/identities/identities.ts';
import type { Person } from '../../people/users/plan.ts';
import { readRecipients } from '../broadcasts/stored-broadcast.ts';
import type { LineContext } from '../context/context.ts';
import { inboxOnly } from '../fan-out/plan-deliveries.ts';

/**
 * The users of a broadcast that takes no more than rows in their inboxes: each once, ascending, with the ids
 * of their notifications in the same order.
 */
export interface KnownRecipients {
  userIds: readonly string[];
  notificationIds: readonly string[];
}

interface Addressed {
  id: string;
  projectId: string;
  category: string | null;
  content: { recipients: readonly Recipient[] };
}

// Small enough that the broadcasts of the same commit do not wait for its rows.
const MAX_RECIPIENTS = 10;

/**
 * Finds the broadcasts whose notifications can be written when they are accepted, because everything that a
 * fan-out would look up is in memory: the user of each recipient is known, nothing is said about them that
 * might be new, and no channel but the inbox is configured. Reads no database, and is as fresh as the caches
 * that a fan-out uses.
 */
export async function findKnownRecipients<Broadcast extends Addressed>(
  context: Pick<LineContext, 'identities' | 'integrations' | 'categories'>,
  broadcasts: readonly Broadcast[],
): Promise<Map<Broadcast, KnownRecipients>> {
  const small = broadcasts.filter(({ content }) => {
    const { length } = content.recipients;
    return length > 0 && length <= MAX_RECIPIENTS;
  });
  const known = new Map<Broadcast, KnownRecipients>();
  for (const broadcast of await inboxOnly(context, small)) {
    const userIds = knownUsers(context.identities, broadcast);
    if (userIds === undefined) continue;
    const notificationIds = userIds.map((userId) => notificationId(broadcast.id, userId));
    known.set(broadcast, { userIds, notificationIds });
  }
  return known;
}

function knownUsers(
  identities: Identities,
  { projectId, content: { recipients } }: Addressed,
): string[] | undefined {
  const { people } = readRecipients(projectId, recipients);
  // The subscribers of a topic are not in memory.
  if (people.length < recipients.length) return undefined;
  const users = new Set<string>();
  for (const person of people) {
    const userId = isDescribed(person) ? undefined : knownUser(identities, person);
    if (userId === undefined) return undefined;
    users.add(userId);
  }
  return users.size === 1 ? [...users] : [...users].sort();
}

function isDescribed({ firstName, lastName, customAttributes, phoneNumbers }: Person): boolean {
  return [firstName, lastName, customAttributes, phoneNumbers].some((detail) => detail !== undefined);
}

/** The user of both identities, or of the one that is given; undefined if unknown or if they differ. */
function knownUser(identities: Identities, person: Person): string | undefined {
  const { id, email } = identityKeysOf(person);
  const byId = id === undefined ? undefined : identities.get(id);
  if (email === undefined) return byId;
  const byEmail = identities.get(email);
  return id === undefined || byId === byEmail ? byEmail : undefined;
}
