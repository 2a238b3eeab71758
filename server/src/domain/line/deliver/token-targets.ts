import { textArray, uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import type { Sealer } from '../../../lib/seal.ts';
import { delivering } from '../../../providers/index.ts';
import type { TokenTarget } from '../../../providers/provider.ts';
import type { Progress } from '../../../queue/jobs.ts';
import {
  type InstallationOfUser,
  type InstallationToken,
  installationTokens,
} from '../../people/installations/token.ts';
import { MAX_ACTIVE_TOKENS } from '../../people/tokens/discard-oldest.ts';
import type { TokenRef } from '../../people/tokens/gone-token.ts';
import { openToken } from '../../people/tokens/sealed.ts';
import type { OpenedIntegration } from '../../setup/integrations/cache.ts';
import type { LineContext } from '../context/context.ts';
import { MAX_UNREAD_COUNT } from '../notifications/count-unread.ts';
import { IN_STATUS } from '../notifications/row.ts';
import { collectionOf, hasDestination } from '../routing/routes.ts';
import type { Delivery, Destination, Target, Targets } from './delivery.ts';

/** A delivery outside the inbox that is made now. */
export interface Due {
  delivery: Delivery;
  user: NonNullable<Delivery['user']>;
  /** The integrations of its channel. */
  integrations: readonly OpenedIntegration[];
}

/**
 * Finds the targets of deliveries that go to tokens, with the numbers on app icons and the access tokens of
 * installations, by one statement each and only if they are needed. Leaves out deliveries without a target.
 * Tokens are decrypted here and nowhere else on the way of a delivery.
 */
export async function findTokenTargets(
  context: LineContext,
  deliveries: readonly Due[],
): Promise<ReadonlyMap<Due, Targets>> {
  const nowMs = context.clock.now();
  const opened = await openTokens(
    context,
    deliveries.map((due) => tokensOf(due, nowMs)),
  );
  const tokens = new Map(
    [...opened].map(([due, all]) => [due, all.map((token) => addressedToken(due, token))]),
  );
  const [badges, access] = await Promise.all([
    countBadges(
      context.db,
      deliveries.filter(({ delivery }) => delivery.channel === 'mobile_push'),
    ),
    accessTokens(context, tokens),
  ]);
  const found = new Map<Due, Targets>();
  for (const due of deliveries) {
    const badge = badges.get(due.user.id) ?? NO_BADGE;
    const now = (tokens.get(due) ?? []).map((one) => targetOf(due.delivery, one, { badge, access }));
    const targets = targetsOf(due.delivery, now.length === 0 ? ownTargets(due, nowMs) : now, nowMs);
    if (targets !== undefined) found.set(due, targets);
  }
  return found;
}

/** A delivery, and the tokens to load for it: the newest of these collections, or those with these ids. */
interface TokensOf {
  due: Due;
  collections: readonly string[];
  ids?: ReadonlySet<string>;
}

/**
 * The tokens to ask for: the remaining ones that are due, or those of all collections of the channel's
 * integrations.
 */
function tokensOf(due: Due, nowMs: number): TokensOf {
  const { progress } = due.delivery;
  const collections = [...new Set(due.integrations.flatMap((one) => collectionOf(one) ?? []))];
  if (progress === undefined) return { due, collections };
  const ids = Object.keys(progress.left).filter((id) => isDue(progress, id, nowMs));
  return { due, collections, ids: new Set(ids) };
}

function isDue({ left }: Progress, id: string, nowMs: number): boolean {
  return (left[id] ?? 0) <= nowMs;
}

/** The destination of the project's integrations for users without a token. */
function ownTargets({ delivery, integrations }: Due, nowMs: number): Target[] {
  const { channel, progress } = delivery;
  const own = integrations.filter(hasDestination);
  const isRemaining = progress === undefined || (channel in progress.left && isDue(progress, channel, nowMs));
  if (own.length === 0 || !isRemaining) return [];
  return [{ id: channel, integrations: own, to: { kind: 'address', address: undefined }, identifiers: [] }];
}

/** Returns undefined if there is none, and none is left of an earlier attempt. */
function targetsOf(delivery: Delivery, now: readonly Target[], nowMs: number): Targets | undefined {
  const { progress } = delivery;
  if (progress === undefined) return now.length === 0 ? undefined : { now, later: {}, lost: 0 };
  const left = Object.entries(progress.left);
  const later = Object.fromEntries(left.filter(([id]) => !isDue(progress, id, nowMs)));
  return { now, later, lost: left.length - Object.keys(later).length - now.length };
}

/** A token to send to. */
interface OpenedToken {
  id: string;
  /** From tokens.channel. */
  collection: string;
  /** Its members as they were saved; undefined if they cannot be decrypted. */
  data: unknown;
}

/**
 * Loads the active tokens for each delivery, the newest first, by one statement. Tokens that were discarded
 * since the fan-out are left out. Each token is decrypted once.
 */
async function openTokens(
  { db, sealer }: { db: Queryable; sealer: Sealer },
  asked: readonly TokensOf[],
): Promise<ReadonlyMap<Due, readonly OpenedToken[]>> {
  const holders = new Map<string, { userId: string; collection: string }>();
  for (const { due, collections } of asked)
    for (const collection of collections)
      holders.set(due.user.id + collection, { userId: due.user.id, collection });
  if (holders.size === 0) return new Map();
  const rows = await db.query<TokenRow>(selectTokens, [
    uuidArray([...holders.values()].map(({ userId }) => userId)),
    textArray([...holders.values()].map(({ collection }) => collection)),
    MAX_ACTIVE_TOKENS,
  ]);
  const byHolder = Map.groupBy(rows, (row) => row.user_id + row.channel);
  const opened = new Map<string, OpenedToken>();
  const open = (row: TokenRow): OpenedToken => {
    const token = opened.get(row.id) ?? openedToken(sealer, row);
    opened.set(row.id, token);
    return token;
  };
  return new Map(
    asked.map(({ due, collections, ids }) => {
      const all = collections.flatMap((collection) => byHolder.get(due.user.id + collection) ?? []);
      const meant = ids === undefined ? newest(all) : all.filter(({ id }) => ids.has(id));
      return [due, meant.map(open)];
    }),
  );
}

/** Ids are in the order of creation. */
function newest(rows: TokenRow[]): TokenRow[] {
  return rows.sort((a, b) => (a.id > b.id ? -1 : 1)).slice(0, MAX_ACTIVE_TOKENS);
}

function openedToken(
  sealer: Sealer,
  { user_id, id, channel: collection, sealed_data }: TokenRow,
): OpenedToken {
  const json = openToken(sealer, user_id, id, sealed_data);
  return { id, collection, data: json === undefined ? undefined : (JSON.parse(json) as unknown) };
}

interface TokenRow {
  user_id: string;
  id: string;
  channel: string;
  sealed_data: Buffer;
}

/** A token with the integrations that send to it, and where they do; undefined if it cannot be decrypted. */
interface AddressedToken {
  token: OpenedToken;
  integrations: readonly OpenedIntegration[];
  target: TokenTarget | undefined;
}

function addressedToken({ integrations: all }: Due, token: OpenedToken): AddressedToken {
  const integrations = all.filter((one) => collectionOf(one) === token.collection);
  const tokens = delivering.get(integrations[0]?.provider ?? '')?.tokens;
  const target = token.data === undefined ? undefined : tokens?.target(token.data as never);
  return { token, integrations, target };
}

/** The access tokens of installations, by the ids of the tokens that need them. */
type Access = ReadonlyMap<string, { installation: InstallationOfUser; access: InstallationToken }>;

async function accessTokens(
  context: LineContext,
  tokens: ReadonlyMap<Due, readonly AddressedToken[]>,
): Promise<Access> {
  const needed = new Map<string, InstallationOfUser>();
  for (const [{ delivery }, addressed] of tokens)
    for (const { token, integrations, target } of addressed) {
      if (target?.installation === undefined) continue;
      const { projectId, userId } = delivery;
      const provider = integrations[0]?.provider as InstallationOfUser['provider'];
      needed.set(token.id, { projectId, userId, provider, id: target.installation.id });
    }
  if (needed.size === 0) return new Map();
  const access = await installationTokens(context, [...needed.values()]);
  return new Map(
    [...needed].map(([id, installation]) => [
      id,
      { installation, access: access.get(installation) as InstallationToken },
    ]),
  );
}

function targetOf(
  { projectId, userId, channel }: Delivery,
  { token: { id, collection }, integrations, target }: AddressedToken,
  { badge, access }: { badge: Badge; access: Access },
): Target {
  const token: TokenRef = { projectId, userId, tokenId: id, channel: collection };
  if (target === undefined) return { id, integrations, token, to: { kind: 'unreadable' }, identifiers: [] };
  const { installation, appId, isFixed, secrets: identifiers } = target;
  const ordered = appFirst(integrations, appId);
  return {
    id,
    integrations: isFixed ? ordered.slice(0, 1) : ordered,
    token: installation === undefined ? token : { ...token, installationId: installation.id },
    to: destinationOf(target, { channel, badge, access: access.get(id) }),
    identifiers,
  };
}

function destinationOf(
  { address: to, installation }: TokenTarget,
  { channel, badge, access }: { channel: string; badge: Badge; access: ReturnType<Access['get']> },
): Destination {
  if (installation !== undefined && access !== undefined)
    return { kind: 'installation', ...access, withAccess: installation.withAccess };
  return { kind: 'address', address: channel === 'mobile_push' ? { ...to, badge } : to };
}

/** The integrations of the app first: the keys of others may not be valid for the token. */
function appFirst(integrations: readonly OpenedIntegration[], app: string | undefined): OpenedIntegration[] {
  const isOfApp = ({ config }: OpenedIntegration) => app !== undefined && config.app_id === app;
  return [...integrations].sort((a, b) => Number(isOfApp(b)) - Number(isOfApp(a)));
}

/** The counts that the number on an app's icon can show. */
interface Badge {
  unread: number;
  unseen: number;
}

/** The counts of a user that were not asked for. */
const NO_BADGE: Badge = { unread: 0, unseen: 0 };

/**
 * Counts for all their users at once. Whether a notification was seen is only in its row, not in the index,
 * so unseen ones are counted only if an integration shows them; otherwise they equal the unread ones.
 */
async function countBadges(db: Queryable, deliveries: readonly Due[]): Promise<ReadonlyMap<string, Badge>> {
  if (deliveries.length === 0) return new Map();
  const userIds = new Set(deliveries.map(({ user }) => user.id));
  const unseen = deliveries.some(({ integrations }) =>
    integrations.some(({ config }) => config.badge === 'unseen'),
  );
  const rows = await db.query<Badge & { user_id: string }>(unseen ? countBoth : countUnread, [
    uuidArray([...userIds]),
  ]);
  return new Map(rows.map(({ user_id, ...badge }) => [user_id, badge]));
}

// Index tokens_listed, for each user and collection.
const selectTokens = sql(
  'tokens_to_deliver_to',
  `select w.user_id, w.channel, t.id, t.sealed_data
  from unnest($1::uuid[], $2::text[]) as w (user_id, channel)
  cross join lateral (
    select id, sealed_data
    from tokens
    where user_id = w.user_id and channel = w.channel and discarded_at is null
    order by id desc
    limit $3
  ) t`,
);
const count = (columns: string, figures: string) => `select w.user_id, ${figures}
  from unnest($1::uuid[]) as w (user_id)
  cross join lateral (
    select ${columns}
    from notifications
    where user_id = w.user_id and ${IN_STATUS.unread}
    limit ${MAX_UNREAD_COUNT}
  ) n
  group by w.user_id`;
// Index-only scan of inbox_unread; the second statement reads the rows as well.
const countUnread = sql('count_badges', count('', 'count(*)::int as unread, count(*)::int as unseen'));
const countBoth = sql(
  'count_badges_unseen',
  count('seen_at', 'count(*)::int as unread, (count(*) filter (where n.seen_at is null))::int as unseen'),
);
