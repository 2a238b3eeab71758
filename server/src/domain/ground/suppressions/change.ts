import type { SaveSuppression, SuppressionKind } from '../../../contract/suppression.ts';
import { type Database, sql } from '../../../db/client.ts';
import { recordEvents } from '../events/record.ts';
import type { Address } from '../identities/address.ts';
import type { AddressKeys } from './address-keys.ts';
import { type SuppressionRow, suppressionOf } from './list.ts';
import { suppressAddresses, suppressionEvent } from './suppress.ts';

/**
 * Suppresses an address by the project's own decision, or changes its reason and note. Resolves with the row.
 */
export function addSuppression(
  { db, addressKeys }: { db: Pick<Database, 'transaction'>; addressKeys: AddressKeys },
  projectId: string,
  given: SaveSuppression,
): Promise<SuppressionRow> {
  const address = addressOf(given);
  const { reason = 'manual', note } = given;
  return db.transaction(async (tx) => {
    const deps = { db: tx, addressKeys };
    const suppression = { projectId, ...address, reason, detail: null, provider: null };
    await suppressAddresses(deps, [suppression], { byHand: { note } });
    const row = await suppressionOf(deps, projectId, address);
    if (row === undefined) throw new Error('a suppression vanished after it was saved');
    return row;
  });
}

function addressOf({ email, phone_number }: SaveSuppression): Address {
  if (email) return { kind: 'email', address: email };
  if (phone_number) return { kind: 'phone', address: phone_number };
  throw new Error('a suppression without an address passed validation');
}

/** Deletes a suppression: messages are sent to the address. Returns false if the project has no such one. */
export function liftSuppression(
  { db }: { db: Pick<Database, 'transaction'> },
  projectId: string,
  id: string,
): Promise<boolean> {
  return db.transaction(async (tx) => {
    const [lifted] = await tx.query<Lifted>(deleteSuppression, [projectId, id]);
    if (lifted === undefined) return false;
    await recordEvents(tx, [suppressionEvent('suppression.lifted', lifted)]);
    return true;
  });
}

interface Lifted {
  project_id: string;
  id: string;
  kind: SuppressionKind;
  user_ids: string[];
}

// Primary key.
const deleteSuppression = sql(
  'lift_suppression',
  `delete from suppressions
  where project_id = $1 and id = $2
  returning project_id, id, kind, user_ids`,
);
