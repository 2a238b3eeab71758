import { type Queryable, sql } from '../../../db/client.ts';

/** Locks the project until the transaction ends, to count its rows or to create one only once. */
export async function lockProject(tx: Queryable, projectId: string): Promise<void> {
  await tx.query(lock, [projectId]);
}

// Primary key. Foreign key checks on the project do not wait.
const lock = sql('lock_project', 'select from projects where id = $1 for no key update');
