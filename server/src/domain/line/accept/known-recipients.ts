import type { Recipient } from '../../../contract/broadcast.ts';
import { notificationId } from '../../../lib/ids.ts';
import { type Identities, identityKeysOf } from '../../ground/identities/identities.ts';
import type { Person } from '../../people/users/plan.ts';
import { readRecipients } from '../broadcasts/stored-broadcast.ts';
import type { LineContext } from '../context/context.ts';
import { isInboxOnly, loadRoutes } from '../routing/routes.ts';

/** Each user once, ascending, with the ids of their notifications in the same order. */
export interface KnownRecipients {
  userIds: readonly string[];
  notificationIds: readonly string[];
}

interface Broadcast {
  id: string;
  projectId: string;
  content: { category: string | null };
  recipients: readonly Recipient[];
  sendAt: Date | null;
  errors: string | null;
  template: Buffer | null;
}

// Small enough that the broadcasts of the same commit do not wait for its rows.
const MAX_RECIPIENTS = 10;

/**
 * Returns the recipients of each broadcast whose notifications can be written when it is accepted: few users,
 * all of them known and without new details, and no channel but the inbox. Undefined for all others. Uses the
 * caches that a fan-out uses, and queries the database only for projects that they do not have.
 */
export async function findKnownRecipients(
  context: Pick<LineContext, 'identities' | 'integrations' | 'categories'>,
  broadcasts: readonly Broadcast[],
): Promise<(KnownRecipients | undefined)[]> {
  const ids = broadcasts.filter(isSmall).map(({ projectId }) => projectId);
  const routesOf = await loadRoutes(context, ids);
  return broadcasts.map((broadcast) => {
    const { id, projectId, content } = broadcast;
    if (!isSmall(broadcast) || !isInboxOnly(routesOf(projectId, content.category))) return undefined;
    const userIds = knownUsers(context.identities, broadcast);
    return userIds && { userIds, notificationIds: userIds.map((userId) => notificationId(id, userId)) };
  });
}

function isSmall({ recipients: { length }, sendAt, errors, template }: Broadcast): boolean {
  const isPlain = sendAt === null && errors === null && template === null;
  return isPlain && length > 0 && length <= MAX_RECIPIENTS;
}

function knownUsers(identities: Identities, { projectId, recipients }: Broadcast): string[] | undefined {
  const { people } = readRecipients({ projectId }, recipients);
  // Groups of users are not in memory.
  if (people.length < recipients.length) return undefined;
  const users = new Set<string>();
  for (const person of people) {
    const userId = hasDetails(person) ? undefined : knownUser(identities, person);
    if (userId === undefined) return undefined;
    users.add(userId);
  }
  return users.size === 1 ? [...users] : [...users].sort();
}

function hasDetails({ firstName, lastName, locale, customAttributes, phoneNumbers }: Person): boolean {
  return [firstName, lastName, locale, customAttributes, phoneNumbers].some((detail) => detail !== undefined);
}

/** The user of both identities, or of the one that is given; undefined if unknown or if they differ. */
function knownUser(identities: Identities, person: Person): string | undefined {
  const { id, email } = identityKeysOf(person);
  const byId = id === undefined ? undefined : identities.get(id);
  if (email === undefined) return byId;
  const byEmail = identities.get(email);
  return id === undefined || byId === byEmail ? byEmail : undefined;
}
