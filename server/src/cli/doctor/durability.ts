import { type ConnectionSettings, openDatabase } from '../../db/client.ts';
import { describeDurability, neededSynchronousCommit, readDurability, risksOf } from '../../db/durability.ts';
import { type Finding, ok, warning } from './finding.ts';

const CHECK = 'durability';

/** Checks whether commits of the server's pool survive a crash; `direct` is the database itself. */
export async function checkDurability(
  direct: ConnectionSettings,
  pool: ConnectionSettings = direct,
): Promise<Finding[]> {
  const plain = openDatabase(direct, { size: 1, name: 'belfry doctor' });
  const found = await readDurability(plain).finally(() => plain.close());
  const synchronousCommit = neededSynchronousCommit(found.synchronous_commit);
  const asServer = openDatabase(pool, { size: 1, name: 'belfry doctor', synchronousCommit, direct });
  const used = await readDurability(asServer).finally(() => asServer.close());
  const risks = risksOf(used).map(({ message, advice }) => warning(CHECK, message, advice));
  if (risks.length > 0) return risks;
  const raised =
    found.synchronous_commit === used.synchronous_commit
      ? ''
      : ` (the database sets synchronous_commit to ${found.synchronous_commit}, Belfry overrides it)`;
  return [ok(CHECK, `${describeDurability(used)}${raised}`)];
}
