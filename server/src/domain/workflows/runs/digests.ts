import { uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { unpackJson } from '../../../lib/packed-json.ts';

/** Returns what these runs have collected, by the id of the run: JSON texts, in the order of their runs. */
export async function loadCollected(
  db: Queryable,
  runIds: readonly string[],
): Promise<ReadonlyMap<string, readonly string[]>> {
  if (runIds.length === 0) return new Map();
  const rows = await db.query<{ run_id: string; input: Buffer }>(selectItems, [uuidArray(runIds)]);
  const inputs = Map.groupBy(rows, (row) => row.run_id);
  return new Map([...inputs].map(([id, items]) => [id, items.map(({ input }) => unpackJson(input))]));
}

/** Deletes the digests that these runs collect, in the caller's transaction. */
export async function deleteDigests(tx: Queryable, runIds: readonly string[]): Promise<void> {
  if (runIds.length === 0) return;
  const ids = uuidArray(runIds);
  await tx.query(removeDigests, [ids]);
  // A statement of its own: runs may have joined while the first one waited for them.
  await tx.query(removeItems, [ids]);
}

// Primary keys.
const selectItems = sql(
  'items_of_workflow_digests',
  `select run_id, input
  from workflow_digest_items
  where run_id = any ($1::uuid[])
  order by run_id, item_id`,
);
const removeDigests = sql(
  'delete_workflow_digests',
  `delete from workflow_digests
  where run_id = any (array(
    select run_id
    from workflow_digests
    where run_id = any ($1::uuid[])
    order by key
    for update
  ))`,
);
const removeItems = sql(
  'delete_workflow_digest_items',
  'delete from workflow_digest_items where run_id = any ($1::uuid[])',
);
