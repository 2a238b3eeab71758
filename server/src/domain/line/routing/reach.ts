import { textArray, uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { delivering } from '../../../providers/index.ts';
import type { OpenedIntegration } from '../../setup/integrations/cache.ts';

/**
 * How a user can be reached: by their e-mail address, a phone number, a token of a collection
 * (tokens.channel), or a destination of the project that serves all users without a token.
 */
export type Way = string;
const ADDRESS = 'email';
const PHONE = 'sms';
const PROJECTS_OWN = 'project';

/** How each channel of these integrations reaches users, in the order of the integrations. */
export function waysOf(integrations: readonly OpenedIntegration[]): ReadonlyMap<string, readonly Way[]> {
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

/** Returns whether a user can be reached by one of these ways. */
export type Reachable = (userId: string, ways: readonly Way[]) => boolean;

/**
 * Finds how these users can be reached: by one statement for addresses and numbers and one for tokens, each
 * only if it is needed.
 */
export async function findReachable(
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
  // One after the other: `db` may be a single connection.
  if (named.size > 0)
    for (const { id, email, phone } of await db.query<AddressRow>(selectWithAddress, [
      uuidArray([...named]),
    ])) {
      if (email) reached.add(id + ADDRESS);
      if (phone) reached.add(id + PHONE);
    }
  if (holders.size > 0)
    for (const { user_id, channel } of await db.query<TokenRow>(selectWithTokens, [
      uuidArray([...holders]),
      textArray([...collections]),
    ]))
      reached.add(user_id + channel);
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
