import type { SuppressionKind } from '../../../contract/suppression.ts';
import { type Database, sql } from '../../../db/client.ts';
import { recordEvents } from '../events/record.ts';
import { suppressionEvent } from './events.ts';

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
