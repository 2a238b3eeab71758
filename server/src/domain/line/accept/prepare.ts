import { type NewBroadcast, NewBroadcastSchema } from '../../../contract/broadcast.ts';
import { textProblems } from '../../../contract/text-problems.ts';
import { problemsIn } from '../../../contract/validation.ts';
import type { Clock } from '../../../lib/clock.ts';
import { writeJson } from '../../../lib/exact-numbers.ts';
import { newId, notificationId } from '../../../lib/ids.ts';
import { itemsOf, memberOf } from '../../../lib/members.ts';
import { activeSpan } from '../../../lib/tracing.ts';
import { overrideProblem } from '../../../providers/shared/override.ts';
import { BULK, fanOutWeight, priorityFor } from '../../../queue/jobs.ts';
import { type Identities, identityKeysOf } from '../../ground/identities/identities.ts';
import type { IdempotencyKey } from '../../ground/requests/idempotency.ts';
import { hasDetails, type Person } from '../../people/users/plan.ts';
import {
  type BroadcastFormat,
  countRecipients,
  packBroadcast,
  type RawBroadcast,
  readRecipients,
  splitBroadcast,
  type TemplateReference,
} from '../broadcasts/stored-broadcast.ts';
import type { LineContext } from '../context/context.ts';
import { errorsJson } from '../ledger/finish.ts';
import { isInboxOnly, loadRoutes } from '../routing/routes.ts';
import type { KnownRecipients, PendingBroadcast } from './write-accepted.ts';

/*
 * What is done with a broadcast before the statement that writes it (write-accepted.ts): it is checked and
 * packed into a row, and its recipients are looked up in memory.
 */

/** Everything that is wrong with a value as a broadcast, each problem naming its field. */
export function broadcastProblems(value: unknown, nowMs: number): string[] {
  const beyond = problemsBeyondSchema(value, nowMs);
  return [...new Set([...textProblems(undefined, value), ...schemaProblems(value), ...beyond])];
}

const schemaProblems = problemsIn(NewBroadcastSchema);

/** The part of `broadcastProblems` that no schema expresses. The value need not match the schema. */
export function problemsBeyondSchema(value: unknown, nowMs: number): string[] {
  return [
    ...textsProblems(value),
    ...topicProblems(value),
    ...overrideProblems(value),
    ...timeProblems(value, nowMs),
  ];
}

// Every batch of deliveries loads it.
const MAX_DATA_CHARACTERS = 256 * 1024;

/** Returns the texts of a value that are not allowed, because a broadcast has either texts or a template. */
export function textsProblems(value: unknown): string[] {
  const template = memberOf(value, 'template');
  if (typeof template !== 'object' || template === null) return [];
  const texts = ['title', 'content', 'action_url'].filter((name) => memberOf(value, name) != null);
  if (memberOf(memberOf(value, 'overrides'), 'channels') != null) texts.push('overrides.channels');
  const problems = texts.map((name) => `Param '${name}' is not allowed with a template`);
  const data = writeJson(memberOf(template, 'data') ?? null);
  if (data.length > MAX_DATA_CHARACTERS)
    problems.push(`Param 'template.data' must have at most ${MAX_DATA_CHARACTERS} characters as JSON`);
  return problems;
}

const MAX_DAYS_AHEAD = 400;
const DAY_MS = 24 * 3_600_000;

function timeProblems(value: unknown, nowMs: number): string[] {
  const sendAt = memberOf(value, 'send_at');
  if (typeof sendAt !== 'string') return [];
  return Date.parse(sendAt) > nowMs + MAX_DAYS_AHEAD * DAY_MS
    ? [`Param 'send_at' must be within the next ${MAX_DAYS_AHEAD} days`]
    : [];
}

function topicProblems(value: unknown): string[] {
  if (memberOf(value, 'topic') != null) return [];
  const at = itemsOf(memberOf(value, 'recipients')).findIndex(
    (one) => typeof one === 'object' && one !== null && 'topic' in one,
  );
  return at < 0 ? [] : [`Param 'topic' is missing: recipients.${at} are its subscribers`];
}

function overrideProblems(value: unknown): string[] {
  const providers = memberOf(memberOf(value, 'overrides'), 'providers');
  if (typeof providers !== 'object' || providers === null) return [];
  return Object.entries(providers).flatMap(([name, override]) => {
    const problem = overrideProblem(override);
    return problem === undefined ? [] : [`Param 'overrides.providers.${name.slice(0, 100)}' ${problem}`];
  });
}

/** A valid broadcast with its project. One with a template has its texts. */
export interface BroadcastRequest {
  id?: string;
  projectId: string;
  broadcast: NewBroadcast;
  template?: TemplateReference;
  /** What it was parsed from. */
  raw?: RawBroadcast | undefined;
  idempotency?: IdempotencyKey | undefined;
  format?: BroadcastFormat;
  /** What was ignored in the request. */
  errors?: readonly string[];
}

/** Makes the row of a valid broadcast, and what its response needs. */
export async function prepare(request: BroadcastRequest, clock: Clock): Promise<PendingBroadcast> {
  const { id = newId(clock.now()), projectId, broadcast, raw, idempotency, format } = request;
  const parts = splitBroadcast(broadcast, raw, request.template);
  const { category, topic, messageJson, overridesJson, templateJson } = parts;
  const { message, inApp, overrides, recipients: packedRecipients, template } = await packBroadcast(parts);
  const recipients = broadcast.recipients ?? [];
  const { named, group, ofFirstPage } = countRecipients(recipients);
  const sendAt = broadcast.send_at ? new Date(broadcast.send_at) : null;
  const errors = request.errors?.length ? errorsJson(request.errors) : null;
  const characters = messageJson.length + (overridesJson?.length ?? 0) + (templateJson?.length ?? 0);
  return {
    id,
    projectId,
    idempotency,
    content: { category, topic, message, inApp },
    overrides,
    template,
    recipients,
    packedRecipients,
    named,
    sendAt,
    errors,
    // The size of a group is unknown here; it may be a million.
    priority: group === undefined ? priorityFor(named) : BULK,
    weight: fanOutWeight({ recipients: ofFirstPage, characters }),
    parts,
    format,
    traceparent: activeSpan()?.traceparent ?? null,
    bytes: message.length + lengthOf(overrides) + lengthOf(packedRecipients) + lengthOf(template),
  };
}

function lengthOf(packed: Buffer | null): number {
  return packed === null ? 0 : packed.length;
}

// So few that the broadcasts of the same commit do not wait for their rows.
const FEW_RECIPIENTS = 10;

/** Whether the other broadcasts of its commit would wait for its notifications. */
export function hasMany({ recipients }: PendingBroadcast): boolean {
  return recipients.length > FEW_RECIPIENTS;
}

type KnownContext = Pick<LineContext, 'identities' | 'integrations' | 'categories'>;

/**
 * Returns the recipients of each broadcast whose notifications can be written when it is accepted: few users,
 * all of them known and without new details, and no channel but the inbox. Undefined for all others. Uses the
 * caches that a fan-out uses, and queries the database only for projects that they do not have.
 */
export function findFewKnown(
  context: KnownContext,
  broadcasts: readonly PendingBroadcast[],
): Promise<(KnownRecipients | undefined)[]> {
  return findKnown(context, broadcasts, (one) => isPlain(one) && !hasMany(one));
}

/** The same for a single broadcast with any number of users. */
export async function findAllKnown(
  context: KnownContext,
  broadcast: PendingBroadcast,
): Promise<KnownRecipients | undefined> {
  return (await findKnown(context, [broadcast], isPlain))[0];
}

async function findKnown(
  context: KnownContext,
  broadcasts: readonly PendingBroadcast[],
  qualifies: (broadcast: PendingBroadcast) => boolean,
): Promise<(KnownRecipients | undefined)[]> {
  const ids = broadcasts.filter(qualifies).map(({ projectId }) => projectId);
  const routesOf = await loadRoutes(context, ids);
  return broadcasts.map((broadcast) => {
    const { id, projectId, content } = broadcast;
    if (!qualifies(broadcast) || !isInboxOnly(routesOf(projectId, content.category))) return undefined;
    const userIds = knownUsers(context.identities, broadcast);
    return userIds && { userIds, notificationIds: userIds.map((userId) => notificationId(id, userId)) };
  });
}

function isPlain({ recipients, sendAt, errors, template }: PendingBroadcast): boolean {
  return sendAt === null && errors === null && template === null && recipients.length > 0;
}

function knownUsers(
  identities: Identities,
  { projectId, recipients }: PendingBroadcast,
): string[] | undefined {
  const users = new Set<string>();
  // One by one: reading a thousand with details takes long, and the first ends this.
  for (const recipient of recipients) {
    const [person] = readRecipients({ projectId }, [recipient]).people; // none for a group of users
    const userId = person === undefined || hasDetails(person) ? undefined : knownUser(identities, person);
    if (userId === undefined) return undefined;
    users.add(userId);
  }
  return users.size === 1 ? [...users] : [...users].sort();
}

/** The user of both identities, or of the one that is given; undefined if unknown or if they differ. */
function knownUser(identities: Identities, person: Person): string | undefined {
  const { id, email } = identityKeysOf(person);
  const byId = id === undefined ? undefined : identities.get(id);
  if (email === undefined) return byId;
  const byEmail = identities.get(email);
  return id === undefined || byId === byEmail ? byEmail : undefined;
}
