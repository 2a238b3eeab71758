import {
  type Device,
  PLATFORM_TOKENS,
  type Platform,
  type RegisterDevice,
} from '../../../contract/v1/token.ts';
import type { Database, Queryable } from '../../../db/client.ts';
import { NEWEST } from '../../../lib/cursor.ts';
import type { Sealer } from '../../../lib/seal.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import { discardToken } from './discard.ts';
import { MAX_ACTIVE_TOKENS } from './discard-oldest.ts';
import { findActiveTokens, listTokens } from './list.ts';
import { saveToken } from './save.ts';
import { openToken } from './sealed.ts';

const CHANNELS = Object.values(PLATFORM_TOKENS).map(({ collection }) => collection);

interface Owner {
  projectId: string;
  userId: string;
}

/** Saves the token of a device. Returns the id of its record, or undefined if it was discarded meanwhile. */
export async function registerDevice(
  deps: { db: Pick<Database, 'query' | 'transaction'>; bus: Bus; sealer: Sealer },
  owner: Owner,
  { device_token, platform, app_bundle_id }: RegisterDevice,
): Promise<string | undefined> {
  const collection = PLATFORM_TOKENS[platform];
  const appId = platform === 'ios' && app_bundle_id ? { app_id: app_bundle_id } : {};
  await saveToken(deps, collection, owner, { device_token, ...appId });
  const saved = await findActiveTokens(deps.db, owner.userId, CHANNELS, device_token);
  return saved.find(({ channel }) => channel === collection.collection)?.id;
}

/** Returns the devices of a user, newest first. A user has at most 100 on each platform. */
export async function listDevices(
  { db, sealer }: { db: Queryable; sealer: Sealer },
  userId: string,
): Promise<Device[]> {
  const newest = { direction: 'older', id: NEWEST, limit: MAX_ACTIVE_TOKENS } as const;
  const lists = await Promise.all(
    Object.entries(PLATFORM_TOKENS).map(async ([platform, { collection }]) =>
      (await listTokens(db, userId, collection, newest)).flatMap((row): Device[] => {
        const json = openToken(sealer, userId, row.id, row.sealed_data);
        if (json === undefined) return [];
        const { device_token } = JSON.parse(json) as { device_token: string };
        const device = { id: row.id, user_id: userId, device_token, platform: platform as Platform };
        return [{ ...device, created_at: row.created_at.toISOString(), discarded_at: null }];
      }),
    ),
  );
  return lists.flat().sort((a, b) => (a.id < b.id ? 1 : -1));
}

/** Discards the token of a device. Returns false if the user has no such token. */
export async function unregisterDevice(
  deps: { db: Pick<Database, 'query' | 'transaction'>; bus: Bus },
  owner: Owner,
  deviceToken: string,
  platforms: readonly Platform[] = ['ios', 'android', 'safari'],
): Promise<boolean> {
  const channels = platforms.map((platform) => PLATFORM_TOKENS[platform].collection);
  const found = await findActiveTokens(deps.db, owner.userId, channels, deviceToken);
  for (const { id, channel } of found) await discardToken(deps, channel, { ...owner, id });
  return found.length > 0;
}
