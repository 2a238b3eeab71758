import type { Recipient } from '../../../contract/broadcast.ts';
import { notificationId } from '../../../lib/ids.ts';
import { type Identities, namesOf } from '../../ground/identities/identities.ts';
import type { Person } from '../../people/users/plan.ts';
import { readRecipients } from '../broadcasts/recipients.ts';
import type { LineContext } from '../context/context.ts';
import { inboxAlone } from '../fan-out/plan-deliveries.ts';

/**
 * Whom a broadcast reaches that needs no more than rows in inboxes: each once, ascending; and their
 * notifications' ids in the same order.
 */
export interface AtOnce {
  userIds: readonly string[];
  notificationIds: readonly string[];
}

interface Asked {
  id: string;
  projectId: string;
  category: string | null;
  atHand: { recipients: readonly Recipient[] };
}

// Small enough that those who are accepted together with it do not wait for its rows.
const MAX_RECIPIENTS = 10;

/**
 * Of broadcasts that are about to be accepted, those whose notifications can be written along with them: all
 * that a fan-out would ask is in memory, namely who each recipient is, that nothing is said about them that
 * might be new, and that nothing but the inbox is in question. It asks nobody, and is as fresh as what a
 * fan-out would go by.
 */
export async function reachedAtOnce<Broadcast extends Asked>(
  context: Pick<LineContext, 'identities' | 'integrations' | 'categories'>,
  broadcasts: readonly Broadcast[],
): Promise<Map<Broadcast, AtOnce>> {
  const small = broadcasts.filter(
    ({
      atHand: {
        recipients: { length },
      },
    }) => length > 0 && length <= MAX_RECIPIENTS,
  );
  const plain = await inboxAlone(context, small);
  const reached = new Map<Broadcast, AtOnce>();
  for (const broadcast of plain) {
    const userIds = knownUsers(context.identities, broadcast);
    if (userIds === undefined) continue;
    const notificationIds = userIds.map((userId) => notificationId(broadcast.id, userId));
    reached.set(broadcast, { userIds, notificationIds });
  }
  return reached;
}

function knownUsers(
  identities: Identities,
  { projectId, atHand: { recipients } }: Asked,
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
  return [firstName, lastName, customAttributes, phoneNumbers].some((said) => said !== undefined);
}

/** The one user whom all the names that are given mean. */
function knownUser(identities: Identities, person: Person): string | undefined {
  const { id, email } = namesOf(person);
  const byId = id === undefined ? undefined : identities.get(id);
  if (email === undefined) return byId;
  const byEmail = identities.get(email);
  return id === undefined || byId === byEmail ? byEmail : undefined;
}
