import type { Queryable } from '../../../db/client.ts';
import type { NewJob } from '../../../queue/jobs.ts';
import type { NewEvent } from '../../ground/events/record.ts';
import type { ProjectCategories } from '../../setup/categories/cache.ts';
import { type SwitchedOff, switchedOff } from '../../setup/preferences/switched-off.ts';
import type { LineContext } from '../context/context.ts';
import { channelPlan, type StoredChannelPlan } from '../ledger/page-plan.ts';
import {
  type Route,
  reasonInWords,
  routesOf,
  type SkipReason,
  skipReason,
} from '../routing/choose-channels.ts';
import { deliveryJobs } from '../routing/delivery-jobs.ts';
import { findReachable, type Reachable, type Way, waysOf } from '../routing/reach.ts';
import { inboxSentDetails } from './write-fan-out.ts';

/** A broadcast whose users are known. */
interface Deliverable {
  id: string;
  projectId: string;
  category: string | null;
  /** What its texts add to the weight of its jobs. */
  textWeight: number;
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
export interface PlanInputs {
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
  const projects = await loadProjects(context, new Set(broadcasts.map((broadcast) => broadcast.projectId)));
  const routed = broadcasts.map((broadcast) => {
    if (broadcast.userIds.length === 0) return undefined;
    const routes = routesIn(broadcast, projects);
    return needsNoPlan(routes) ? undefined : { broadcast, ...routes };
  });
  const open = routed.filter((one) => one !== undefined);
  const inputs = { routed, nowMs: context.clock.now(), brand: context.config.BRAND };
  if (open.length === 0) return { ...inputs, reachable: () => false, switchedOff: () => new Set() };
  // One after the other: it is one connection.
  const reachable = await findReachable(tx, open.map(waysToFind));
  const mayBeOff = open.filter((one) => one.mayBeOff).map(({ broadcast }) => broadcast);
  return { ...inputs, reachable, switchedOff: await switchedOff(tx, mayBeOff) };
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

/**
 * The broadcasts for which there is nothing to plan: everybody has them in the inbox at once, and nowhere
 * else. Reads only what is in memory.
 */
export async function inboxOnly<Broadcast extends { projectId: string; category: string | null }>(
  context: Pick<LineContext, 'integrations' | 'categories'>,
  broadcasts: readonly Broadcast[],
): Promise<Broadcast[]> {
  const projects = await loadProjects(context, new Set(broadcasts.map(({ projectId }) => projectId)));
  return broadcasts.filter((broadcast) => needsNoPlan(routesIn(broadcast, projects)));
}

/** The channels of a broadcast. */
interface Routes {
  routes: readonly Route[];
  /** What each of the channels reaches users by; the inbox needs nothing. */
  ways: ReadonlyMap<string, readonly Way[]>;
  /** A user has switched one of these channels off for the category. */
  mayBeOff: boolean;
}

interface Routed extends Routes {
  broadcast: Deliverable;
}

function needsNoPlan({ routes, mayBeOff }: Routes): boolean {
  return !mayBeOff && routes.every(isPlainInbox);
}

const IN_APP = 'in_app';

interface Project {
  ways: ReadonlyMap<string, readonly Way[]>;
  categories: ProjectCategories;
}

async function loadProjects(
  context: Pick<LineContext, 'integrations' | 'categories'>,
  ids: ReadonlySet<string>,
): Promise<Map<string, Project>> {
  const projects = new Map<string, Project>();
  for (const id of ids) {
    const ways = waysOf(await context.integrations.of(id));
    projects.set(id, { ways, categories: await context.categories.of(id) });
  }
  return projects;
}

function routesIn(
  { projectId, category }: { projectId: string; category: string | null },
  projects: ReadonlyMap<string, Project>,
): Routes {
  const { ways, categories } = projects.get(projectId) as Project;
  const setUp = [IN_APP, ...ways.keys()];
  const routes = routesOf(category === null ? undefined : categories.configured.get(category), setUp);
  const mayBeOff = routes.some(
    ({ skip, required, channel }) =>
      skip === undefined && !required && categories.mayBeOff(category, channel),
  );
  return { routes, ways, mayBeOff };
}

/** In the inbox at once, for everybody. */
function isPlainInbox({ channel, skip, delayMs, conditional }: Route): boolean {
  return channel === IN_APP && skip === undefined && delayMs === 0 && !conditional;
}

/** What has to be known about the users of a broadcast: only for the channels that it uses. */
function waysToFind({ broadcast, routes, ways }: Routed): { userIds: readonly string[]; ways: Way[] } {
  const used = routes.flatMap(({ channel, skip }) => (skip === undefined ? (ways.get(channel) ?? []) : []));
  return { userIds: broadcast.userIds, ways: used };
}

type Facts = Omit<PlanInputs, 'routed'>;

function planOf({ broadcast, routes, ways }: Routed, facts: Facts): BroadcastPlan {
  const channels: StoredChannelPlan[] = [];
  const jobs: NewJob<'deliver'>[] = [];
  const events: NewEvent[] = [];
  const hidden = new Set<string>();
  let [pending, awaited] = [0, 0];
  for (const route of routes) {
    const { channel, delayMs } = route;
    const { used, skipped } = sortUsers(broadcast, route, ways.get(channel), facts);
    const dueAtMs = used.length === 0 || isPlainInbox(route) ? undefined : facts.nowMs + delayMs;
    channels.push(channelPlan(channel, broadcast.userIds, skipped, dueAtMs));
    for (const [reason, userIds] of skipped) events.push(skippedEvent(broadcast, channel, reason, userIds));
    if (channel === IN_APP) {
      const others = isPlainInbox(route) ? [...skipped.values()].flat() : broadcast.userIds;
      for (const userId of others) hidden.add(userId);
      // When no user is skipped, write-fan-out.ts records that together with the list of all users.
      if (isPlainInbox(route) && skipped.size > 0 && used.length > 0)
        events.push(inboxSentEvent(broadcast, used, facts.brand));
    }
    if (dueAtMs === undefined) continue; // no user gets it, or the notification itself is the delivery
    if (delayMs > 0) events.push(scheduledEvent(broadcast, channel, dueAtMs, used));
    pending += used.length;
    if (delayMs === 0) awaited += used.length;
    const recipients = broadcast.userIds.length;
    const timing = { dueAtMs, later: delayMs > 0 };
    jobs.push(...deliveryJobs({ ...broadcast, recipients }, channel, used, timing));
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

function skippedEvent(
  { projectId, id: broadcastId }: Deliverable,
  channel: string,
  reason: SkipReason,
  userIds: readonly string[],
): NewEvent {
  return {
    projectId,
    type: 'delivery.skipped',
    broadcastId,
    userIds,
    details: { code: reason, log: reasonInWords(reason, channel), level: 'info', context: { channel } },
  };
}

function inboxSentEvent(
  { projectId, id: broadcastId }: Deliverable,
  userIds: readonly string[],
  brand: string,
): NewEvent {
  return { projectId, type: 'delivery.sent', broadcastId, userIds, details: inboxSentDetails(brand) };
}

function scheduledEvent(
  { projectId, id: broadcastId }: Deliverable,
  channel: string,
  dueAtMs: number,
  userIds: readonly string[],
): NewEvent {
  return {
    projectId,
    type: 'delivery.scheduled',
    broadcastId,
    userIds,
    details: {
      level: 'info',
      context: { channel },
      payload: { due_at: new Date(dueAtMs).toISOString() },
    },
  };
}
