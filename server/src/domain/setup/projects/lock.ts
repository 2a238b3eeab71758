import { type Queryable, sql } from '../../../db/client.ts';

/**
 * Lets one transaction at a time go on that asks for this, until it ends: for what is counted or made once in
 * a project.
 */
export async function lockProject(tx: Queryable, projectId: string): Promise<void> {
  await tx.query(lock, [projectId]);
}

// Primary key. Others may still refer to the project, and read it.
const lock = sql('lock_project', 'select from projects where id = $1 for no key update');
