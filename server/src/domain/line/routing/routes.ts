import { delivering } from '../../../providers/index.ts';
import type { Category, ProjectCategories } from '../../setup/categories/cache.ts';
import type { OpenedIntegration } from '../../setup/integrations/cache.ts';
import type { LineContext } from '../context/context.ts';

/** Why a notification does not go out on a channel that the project has set up. */
export type SkipReason =
  | 'cancelled'
  | 'category_disabled'
  | 'channel_not_listed'
  | 'switched_off'
  | 'unreachable';

/** How a category uses a channel that the project has set up, for all users. */
export interface Route {
  channel: string;
  /** The category does not use the channel at all. */
  skip: SkipReason | undefined;
  delayMs: number;
  /** A condition decides when it is due. */
  conditional: boolean;
  /** Users cannot switch it off. */
  required: boolean;
}

/** The routes of a broadcast. */
export interface BroadcastRoutes {
  routes: readonly Route[];
  /** How each channel reaches users; the inbox needs nothing. */
  ways: ReadonlyMap<string, readonly Way[]>;
  /** A user has switched one of these channels off for the category. */
  mayBeOff: boolean;
}

interface ProjectSetup {
  ways: ReadonlyMap<string, readonly Way[]>;
  categories: ProjectCategories;
  /** The routes of each category that was asked for. */
  routes: Map<string | null, BroadcastRoutes>;
}

export const IN_APP = 'in_app';

/**
 * Returns a function that returns the routes of a broadcast in a category, for these projects. Integrations
 * and categories come from caches, which query the database for projects that they do not have.
 */
export async function loadRoutes(
  { integrations, categories }: Pick<LineContext, 'integrations' | 'categories'>,
  projectIds: Iterable<string>,
): Promise<(projectId: string, category: string | null) => BroadcastRoutes> {
  const projects = new Map<string, ProjectSetup>();
  for (const id of new Set(projectIds)) {
    const ways = waysOf(await integrations.of(id));
    projects.set(id, { ways, categories: await categories.of(id), routes: new Map() });
  }
  return (projectId, category) => {
    const setup = projects.get(projectId) as ProjectSetup;
    let routes = setup.routes.get(category);
    if (routes === undefined) {
      routes = routesIn(setup, category);
      setup.routes.set(category, routes);
    }
    return routes;
  };
}

function routesIn({ ways, categories }: ProjectSetup, category: string | null): BroadcastRoutes {
  const routes = routesOf(categories.configured.get(category ?? ''), [IN_APP, ...ways.keys()]);
  const mayBeOff = routes.some(
    ({ skip, required, channel }) =>
      skip === undefined && !required && categories.mayBeOff(category, channel),
  );
  return { routes, ways, mayBeOff };
}

/** Whether there is nothing to plan: all users have it in the inbox immediately, and nowhere else. */
export function isInboxOnly({ routes, mayBeOff }: BroadcastRoutes): boolean {
  return !mayBeOff && routes.every(isPlainInbox);
}

/** In the inbox immediately, for all users. */
export function isPlainInbox({ channel, skip, delayMs, conditional }: Route): boolean {
  return channel === IN_APP && skip === undefined && delayMs === 0 && !conditional;
}

/**
 * The routes of a broadcast over the channels that the project has set up, in their order. Without a config
 * for its category it uses all of them, without delay. Pure.
 */
export function routesOf(category: Category | undefined, setUp: Iterable<string>): Route[] {
  return [...setUp].map((channel) => {
    if (category === undefined)
      return { channel, skip: undefined, delayMs: 0, conditional: false, required: false };
    const listed = category.channels.find((one) => one.channel === channel);
    return {
      channel,
      skip: category.disabled ? 'category_disabled' : listed === undefined ? 'channel_not_listed' : undefined,
      delayMs: listed?.delayMs ?? 0,
      conditional: listed?.condition !== undefined,
      required: category.critical,
    };
  });
}

/** The facts about a user on a channel. */
interface Recipient {
  /** There is an address or a token. The inbox always is. */
  reachable: boolean;
  /** The user does not want the broadcast's category on it. */
  switchedOff: boolean;
}

/**
 * Why a user gets nothing on a channel; undefined if nothing prevents it. The category's config comes first,
 * then the user's preference, then the address. Pure.
 */
export function skipReason(
  { skip, required }: Route,
  { reachable, switchedOff }: Recipient,
): SkipReason | undefined {
  if (skip !== undefined) return skip;
  if (switchedOff && !required) return 'switched_off';
  return reachable ? undefined : 'unreachable';
}

/** A reason in words, for events. */
export function skipReasonText(reason: SkipReason, channel: string): string {
  switch (reason) {
    case 'cancelled':
      return 'the broadcast was cancelled';
    case 'category_disabled':
      return 'the category is disabled';
    case 'channel_not_listed':
      return 'the category does not go out on this channel';
    case 'switched_off':
      return 'the user has switched this category off on this channel';
    case 'unreachable':
      if (channel === 'email') return 'the user has no e-mail address';
      if (channel === 'sms') return 'the user has no phone number';
      return 'the user cannot be reached on this channel';
  }
}

/**
 * How a user can be reached: by their e-mail address, a phone number, a token of a collection
 * (tokens.channel), or a destination of the project that serves all users without a token.
 */
export type Way = string;
export const ADDRESS = 'email';
export const PHONE = 'sms';
export const PROJECTS_OWN = 'project';

/** How each channel of these integrations reaches users, in the order of the integrations. */
function waysOf(integrations: readonly OpenedIntegration[]): ReadonlyMap<string, readonly Way[]> {
  const ways = new Map<string, Way[]>();
  for (const integration of integrations) {
    const { channel } = integration;
    const way = channel === ADDRESS || channel === PHONE ? channel : collectionOf(integration);
    if (way === undefined) continue;
    const others = ways.get(channel) ?? [];
    ways.set(channel, others);
    if (!others.includes(way)) others.push(way);
    if (hasDestination(integration) && !others.includes(PROJECTS_OWN)) others.push(PROJECTS_OWN);
  }
  return ways;
}

/** The collection of the tokens that an integration sends to; undefined if it needs none or is disabled. */
export function collectionOf({ provider, config }: OpenedIntegration): string | undefined {
  return config.enabled === false ? undefined : delivering.get(provider)?.tokens?.collection;
}

/**
 * Whether the integration has a destination for users without a token. One whose config cannot be decrypted
 * may have it.
 */
export function hasDestination({ provider, config, unreadable }: OpenedIntegration): boolean {
  const { ownAddress } = delivering.get(provider) ?? {};
  if (ownAddress === undefined || config.enabled === false) return false;
  return unreadable !== undefined || ownAddress(config as never) !== undefined;
}
