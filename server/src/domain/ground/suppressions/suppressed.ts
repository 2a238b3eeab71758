import type { SuppressionKind, SuppressionReason } from '../../../contract/suppression.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { type Address, addressHash, canonicalAddress } from '../identities/address.ts';
import type { AddressKeys } from './address-keys.ts';

/** Why nothing is sent to an address. */
export interface Suppressed {
  id: string;
  kind: SuppressionKind;
  reason: SuppressionReason;
}

/**
 * Finds which addresses the project must not send to, by one statement. Returns a lookup that takes them in
 * any spelling.
 */
export async function findSuppressed(
  { db, addressKeys }: { db: Queryable; addressKeys: AddressKeys },
  projectId: string,
  addresses: readonly Address[],
): Promise<(kind: SuppressionKind, address: string) => Suppressed | undefined> {
  if (addresses.length === 0) return () => undefined;
  const key = (await addressKeys.find(db, [projectId])).get(projectId);
  if (key === undefined) return () => undefined;
  const names = new Map<string, string>(); // hash → name
  for (const address of addresses) names.set(addressHash(key, address).toString('hex'), nameOf(address));
  const found = new Map<string, Suppressed>();
  for (const { hash, ...suppressed } of await db.query<Suppressed & { hash: string }>(selectByHashes, [
    projectId,
    [...names.keys()].map((hash) => `\\x${hash}`),
  ])) {
    const name = names.get(hash);
    if (name !== undefined) found.set(name, suppressed);
  }
  return (kind, address) => found.get(nameOf({ kind, address }));
}

function nameOf(address: Address): string {
  return `${address.kind}:${canonicalAddress(address)}`;
}

// Unique index suppressions_by_hash.
const selectByHashes = sql(
  'find_suppressed_addresses',
  `select id, kind, reason, encode(hash, 'hex') as hash
  from suppressions
  where project_id = $1 and hash = any ($2::bytea[])`,
);
