import { textArray, uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { chunksOf } from '../../../lib/chunks.ts';
import { type NewJob, priorityFor } from '../../../queue/jobs.ts';
import type { EventDetails, NewEvent } from '../../ground/events/record.ts';
import { type SwitchedOff, switchedOff } from '../../setup/preferences/switched-off.ts';
import type { LineContext } from '../context/context.ts';
import { channelPlan, type StoredChannelPlan } from '../ledger/page-plan.ts';
import {
  ADDRESS,
  type BroadcastRoutes,
  IN_APP,
  isInboxOnly,
  isPlainInbox,
  loadRoutes,
  PHONE,
  PROJECTS_OWN,
  type Route,
  type SkipReason,
  skipReason,
  skipReasonText,
  type Way,
} from '../routing/routes.ts';
import { inboxSentDetails } from './write-fan-out.ts';

/** The part of a broadcast that its jobs are made from. */
export interface JobSource {
  id: string;
  projectId: string;
  /** What its texts add to the weight of its jobs. */
  textWeight: number;
  /** The trace context that its jobs continue. */
  traceparent?: string | undefined;
}

/** A broadcast whose users are known. */
interface Deliverable extends JobSource {
  category: string | null;
  userIds: readonly string[];
}

/** What is planned for a broadcast. */
export interface BroadcastPlan {
  /** The decision on each channel; none if there is only the inbox. */
  channels: readonly StoredChannelPlan[];
  /** How many deliveries are planned, and how many of them are due at once. */
  pending: number;
  awaited: number;
  /** The users whose inbox does not show it, or not yet. */
  hidden: ReadonlySet<string>;
  jobs: readonly NewJob<'deliver'>[];
  /** Channels that are not used, with the reason, and those that are used later. */
  events: readonly NewEvent[];
}

/** What a plan is made of. */
interface PlanInputs {
  /** The routes of each broadcast, in their order; undefined if there is nothing to plan. */
  routed: readonly (Routed | undefined)[];
  reachable: Reachable;
  switchedOff: SwitchedOff;
  nowMs: number;
  brand: string;
}

/**
 * Reads what the plans of these broadcasts depend on. That costs nothing for the inbox unless preferences or
 * categories change it, and for other channels one statement for the whole batch, or two if tokens are
 * needed; preferences cost one more.
 */
export async function loadPlanInputs(
  context: Pick<LineContext, 'integrations' | 'categories' | 'clock' | 'config'>,
  tx: Queryable,
  broadcasts: readonly Deliverable[],
): Promise<PlanInputs> {
  const ids = broadcasts.map(({ projectId }) => projectId);
  const routesOf = await loadRoutes(context, ids);
  const routed = broadcasts.map((broadcast) => {
    if (broadcast.userIds.length === 0) return undefined;
    const routes = routesOf(broadcast.projectId, broadcast.category);
    return isInboxOnly(routes) ? undefined : { broadcast, ...routes };
  });
  const open = routed.filter((one) => one !== undefined);
  const inputs = { routed, nowMs: context.clock.now(), brand: context.config.BRAND };
  if (open.length === 0) return { ...inputs, reachable: () => false, switchedOff: () => new Set() };
  const mayBeOff = open.filter((one) => one.mayBeOff).map(({ broadcast }) => broadcast);
  const [reachable, off] = await Promise.all([
    findReachable(tx, open.map(waysToFind)),
    switchedOff(tx, mayBeOff),
  ]);
  return { ...inputs, reachable, switchedOff: off };
}

/** Decides on which channels each user gets each broadcast, and when. In the order of the inputs. Pure. */
export function planDeliveries({ routed, ...facts }: PlanInputs): BroadcastPlan[] {
  return routed.map((one) => (one === undefined ? INBOX_ONLY : planOf(one, facts)));
}

const INBOX_ONLY: BroadcastPlan = {
  channels: [],
  pending: 0,
  awaited: 0,
  hidden: new Set(),
  jobs: [],
  events: [],
};

interface Routed extends BroadcastRoutes {
  broadcast: Deliverable;
}

/** What has to be known about the users of a broadcast: only for the channels that it uses. */
function waysToFind({ broadcast, routes, ways }: Routed): { userIds: readonly string[]; ways: Way[] } {
  const used = routes.flatMap(({ channel, skip }) => (skip === undefined ? (ways.get(channel) ?? []) : []));
  return { userIds: broadcast.userIds, ways: used };
}

type Facts = Omit<PlanInputs, 'routed'>;

function planOf({ broadcast, routes, ways }: Routed, facts: Facts): BroadcastPlan {
  const { id: broadcastId, projectId, userIds: all } = broadcast;
  const channels: StoredChannelPlan[] = [];
  const jobs: NewJob<'deliver'>[] = [];
  const events: NewEvent[] = [];
  const addEvent = (type: NewEvent['type'], userIds: readonly string[], details: EventDetails) =>
    events.push({ projectId, type, broadcastId, userIds, details });
  const hidden = new Set<string>();
  let [pending, awaited] = [0, 0];
  for (const route of routes) {
    const { channel, delayMs } = route;
    const about = { level: 'info', context: { channel } } as const;
    const { used, skipped } = sortUsers(broadcast, route, ways.get(channel), facts);
    const dueAtMs = used.length === 0 || isPlainInbox(route) ? undefined : facts.nowMs + delayMs;
    channels.push(channelPlan(channel, all, skipped, dueAtMs));
    for (const [reason, userIds] of skipped)
      addEvent('delivery.skipped', userIds, { code: reason, log: skipReasonText(reason, channel), ...about });
    if (channel === IN_APP) {
      for (const userId of isPlainInbox(route) ? [...skipped.values()].flat() : all) hidden.add(userId);
      // If no user is skipped, the row of `notification.created` records that as well (write-fan-out.ts).
      if (isPlainInbox(route) && skipped.size > 0 && used.length > 0)
        addEvent('delivery.sent', used, inboxSentDetails(facts.brand));
    }
    if (dueAtMs === undefined) continue; // no user gets it, or the notification itself is the delivery
    const isLater = delayMs > 0;
    const payload = { due_at: new Date(dueAtMs).toISOString() };
    if (isLater) addEvent('delivery.scheduled', used, { ...about, payload });
    pending += used.length;
    if (!isLater) awaited += used.length;
    jobs.push(...deliveryJobs(broadcast, channel, used, { recipients: all.length, dueAtMs, later: isLater }));
  }
  return { channels, pending, awaited, hidden, jobs, events };
}

/** Splits the users of a broadcast into those who get it on a channel and those who do not, by reason. */
function sortUsers(
  { category, userIds }: Deliverable,
  route: Route,
  ways: readonly Way[] | undefined,
  { reachable, switchedOff: off }: Facts,
): { used: readonly string[]; skipped: Map<SkipReason, readonly string[]> } {
  if (route.skip !== undefined) return { used: [], skipped: new Map([[route.skip, userIds]]) };
  const { channel } = route;
  const used: string[] = [];
  const skipped = new Map<SkipReason, string[]>();
  for (const userId of userIds) {
    const reason = skipReason(route, {
      reachable: ways === undefined || reachable(userId, ways),
      switchedOff: off(category, userId).has(channel),
    });
    const list = reason === undefined ? used : skipped.get(reason);
    if (list !== undefined) list.push(userId);
    else if (reason !== undefined) skipped.set(reason, [userId]);
  }
  return { used, skipped };
}

// A chunk of recipients on one channel is one job: small enough that its outcomes are written soon, large
// enough that the queue costs little beside the sending.
const RECIPIENTS_PER_DELIVERY = 100;
// A delivery reads and renders the texts, a fan-out passes them on as they are stored. But batches of
// deliveries are smaller.
const FEWER_TEXTS = 32;

/**
 * The jobs that deliver a broadcast to these users over a channel, due at `dueAtMs`. With `later` they are
 * scheduled for that time. The broadcast awaits them unless they are scheduled or a `replay`. `recipients` is
 * the number of users that are handled together, on all channels: fewer go first.
 */
export function deliveryJobs(
  broadcast: JobSource,
  channel: string,
  userIds: readonly string[],
  {
    recipients,
    dueAtMs,
    later,
    replay,
  }: { recipients: number; dueAtMs: number; later: boolean; replay?: number },
): NewJob<'deliver'>[] {
  return chunksOf(userIds, RECIPIENTS_PER_DELIVERY).map((chunk) => ({
    kind: 'deliver',
    projectId: broadcast.projectId,
    priority: priorityFor(recipients),
    weight: chunk.length + Math.floor(broadcast.textWeight / FEWER_TEXTS),
    ...(later ? { dueAtMs } : {}),
    payload: {
      broadcast_id: broadcast.id,
      channel,
      user_ids: chunk,
      attempt: 0,
      first_attempt_ms: dueAtMs,
      ...(later || replay !== undefined ? {} : { awaited: true }),
      replay,
      traceparent: broadcast.traceparent,
    },
  }));
}

/** Returns whether a user can be reached by one of these ways. */
type Reachable = (userId: string, ways: readonly Way[]) => boolean;

/**
 * Finds how these users can be reached: by one statement for addresses and numbers and one for tokens, each
 * only if it is needed.
 */
async function findReachable(
  db: Queryable,
  groups: readonly { userIds: readonly string[]; ways: readonly Way[] }[],
): Promise<Reachable> {
  const named = new Set<string>();
  const holders = new Set<string>();
  const collections = new Set<string>();
  for (const { userIds, ways } of groups)
    for (const way of ways) {
      if (way === PROJECTS_OWN) continue;
      const personal = way === ADDRESS || way === PHONE;
      if (!personal) collections.add(way);
      for (const userId of userIds) (personal ? named : holders).add(userId);
    }
  const reached = new Set<string>();
  const [withAddress, withTokens] = await Promise.all([
    named.size === 0 ? [] : db.query<AddressRow>(selectWithAddress, [uuidArray([...named])]),
    holders.size === 0
      ? []
      : db.query<TokenRow>(selectWithTokens, [uuidArray([...holders]), textArray([...collections])]),
  ]);
  for (const { id, email, phone } of withAddress) {
    if (email) reached.add(id + ADDRESS);
    if (phone) reached.add(id + PHONE);
  }
  for (const { user_id, channel } of withTokens) reached.add(user_id + channel);
  return (userId, ways) => ways.some((way) => way === PROJECTS_OWN || reached.has(userId + way));
}

interface AddressRow {
  id: string;
  email: boolean;
  phone: boolean;
}

interface TokenRow {
  user_id: string;
  channel: string;
}

// Primary key.
const selectWithAddress = sql(
  'users_with_address',
  `select id, email is not null as email, phone_numbers <> '{}' as phone
  from users
  where id = any ($1::uuid[])
    and deleted_at is null
    and (email is not null or phone_numbers <> '{}')`,
);
// Index-only scan of tokens_listed.
const selectWithTokens = sql(
  'users_with_tokens',
  `select distinct user_id, channel
  from tokens
  where user_id = any ($1::uuid[]) and channel = any ($2::text[]) and discarded_at is null`,
);
