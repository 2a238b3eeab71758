import type { Queryable } from '../../../db/client.ts';
import type { NewJob } from '../../../queue/jobs.ts';
import type { NewEvent } from '../../ground/events/record.ts';
import type { ProjectCategories } from '../../setup/categories/of-project.ts';
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
import { inboxSentDetails } from './inbox-sent.ts';

/** A broadcast whose users are known. */
interface Deliverable {
  id: string;
  projectId: string;
  category: string | null;
  /** What its texts add to the weight of its jobs. */
  textWeight: number;
  userIds: readonly string[];
  /** Counted up by the deliveries that are planned, and by those of them that are due at once. */
  pending: number;
  awaited: number;
  /** Filled with the users whose inbox does not show it, or not yet. */
  heldBack: Set<string>;
  /** Filled with what is decided on each channel; it stays empty where there is only the inbox. */
  plan: StoredChannelPlan[];
}

/** What is to be written of a plan. */
export interface Plan {
  jobs: NewJob<'deliver'>[];
  /** Of channels that are not used, and why; and of those that are used later. */
  events: NewEvent[];
}

/**
 * Decides on which channels each user gets each broadcast, and when. Where nothing is configured and nobody
 * has switched anything off, the inbox costs nothing, and the other channels one statement for the whole
 * batch, or two where they go by tokens as well; preferences cost one more.
 */
export async function planDeliveries(
  context: LineContext,
  tx: Queryable,
  broadcasts: readonly Deliverable[],
): Promise<Plan> {
  const projects = await loadProjects(context, new Set(broadcasts.map((broadcast) => broadcast.projectId)));
  const open = broadcasts
    .filter((broadcast) => broadcast.userIds.length > 0)
    .flatMap((broadcast) => routed(broadcast, projects.get(broadcast.projectId)))
    .filter((one) => !needsNoPlan(one));
  if (open.length === 0) return { jobs: [], events: [] };
  // One after the other: it is one connection.
  const reachable = await findReachable(tx, open.map(toReach));
  const off = await switchedOff(
    tx,
    open.filter(({ mayBeOff }) => mayBeOff).map(({ broadcast }) => broadcast),
  );
  const nowMs = context.clock.now();
  const plans = open.map((one) => planOf(one, { reachable, off, nowMs, brand: context.config.BRAND }));
  return { jobs: plans.flatMap(({ jobs }) => jobs), events: plans.flatMap(({ events }) => events) };
}

/**
 * Those of the broadcasts for which there is nothing to plan: everybody has them in the inbox at once, and
 * nowhere else. Asks only what is in memory.
 */
export async function inboxOnly<Broadcast extends { projectId: string; category: string | null }>(
  context: Pick<LineContext, 'integrations' | 'categories'>,
  broadcasts: readonly Broadcast[],
): Promise<Broadcast[]> {
  const projects = await loadProjects(context, new Set(broadcasts.map(({ projectId }) => projectId)));
  return broadcasts.filter((broadcast) =>
    routed(broadcast, projects.get(broadcast.projectId)).every(needsNoPlan),
  );
}

function needsNoPlan({ routes, mayBeOff }: Routed<unknown>): boolean {
  return !mayBeOff && routes.every(isPlainInbox);
}

interface Routed<Broadcast = Deliverable> {
  broadcast: Broadcast;
  routes: Route[];
  /** By what each of the channels reaches users; the inbox needs nothing. */
  ways: ReadonlyMap<string, readonly Way[]>;
  /** Somebody, of whatever broadcast, has switched one of these channels off for the category. */
  mayBeOff: boolean;
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
    projects.set(id, {
      ways: waysOf(await context.integrations.of(id)),
      categories: await context.categories.of(id),
    });
  }
  return projects;
}

function routed<Broadcast extends { category: string | null }>(
  broadcast: Broadcast,
  project: Project | undefined,
): Routed<Broadcast>[] {
  if (project === undefined) return [];
  const { category } = broadcast;
  const { ways, categories } = project;
  const setUp = [IN_APP, ...ways.keys()];
  const routes = routesOf(category === null ? undefined : categories.configured.get(category), setUp);
  const mayBeOff = routes.some(
    ({ skip, required, channel }) =>
      skip === undefined && !required && categories.mayBeOff(category, channel),
  );
  return [{ broadcast, routes, ways, mayBeOff }];
}

/** In the inbox at once, for everybody. */
function isPlainInbox({ channel, skip, delayMs, conditional }: Route): boolean {
  return channel === IN_APP && skip === undefined && delayMs === 0 && !conditional;
}

/** What has to be known about the users of a broadcast: only of channels that it goes out on. */
function toReach({ broadcast, routes, ways }: Routed): { userIds: readonly string[]; ways: Way[] } {
  const used = routes.flatMap(({ channel, skip }) => (skip === undefined ? (ways.get(channel) ?? []) : []));
  return { userIds: broadcast.userIds, ways: used };
}

interface Known {
  reachable: Reachable;
  off: SwitchedOff;
  nowMs: number;
  brand: string;
}

function planOf({ broadcast, routes, ways }: Routed, known: Known): Plan {
  const plan: Plan = { jobs: [], events: [] };
  for (const route of routes) {
    const { channel, delayMs } = route;
    const { used, skipped } = sortUsers(broadcast, route, ways.get(channel), known);
    const dueAtMs = used.length === 0 || isPlainInbox(route) ? undefined : known.nowMs + delayMs;
    broadcast.plan.push(channelPlan(channel, broadcast.userIds, skipped, dueAtMs));
    for (const [reason, userIds] of skipped)
      plan.events.push(skippedEvent(broadcast, channel, reason, userIds));
    if (channel === IN_APP) {
      if (isPlainInbox(route)) {
        for (const userId of [...skipped.values()].flat()) broadcast.heldBack.add(userId);
        // Where everybody has it, write-fan-out.ts records that with the list of users that it has anyway.
        if (skipped.size > 0 && used.length > 0)
          plan.events.push(inboxSentEvent(broadcast, used, known.brand));
        continue; // the notification itself is the delivery
      }
      for (const userId of broadcast.userIds) broadcast.heldBack.add(userId);
    }
    if (dueAtMs === undefined) continue;
    if (delayMs > 0) plan.events.push(scheduledEvent(broadcast, channel, dueAtMs, used));
    broadcast.pending += used.length;
    if (delayMs === 0) broadcast.awaited += used.length;
    plan.jobs.push(
      ...deliveryJobs({ ...broadcast, recipients: broadcast.userIds.length }, channel, used, {
        dueAtMs,
        later: delayMs > 0,
      }),
    );
  }
  return plan;
}

/** Who gets it on a channel, and who does not and why. */
function sortUsers(
  { category, userIds }: Deliverable,
  route: Route,
  ways: readonly Way[] | undefined,
  { reachable, off }: Known,
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
