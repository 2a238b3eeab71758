import type { Config } from '../../config.ts';
import type { Queryable } from '../../db/client.ts';
import { describeUnreadableWebhooks } from '../../domain/after/webhooks/secrets.ts';
import { describeUnreadable, unreadableIntegrations } from '../../domain/ground/secrets/unreadable.ts';
import { keyFit, keysInUse } from '../../domain/setup/projects/sealing-key.ts';
import { keyPath, type Sealer } from '../../lib/seal.ts';
import { type Finding, problem } from './finding.ts';

const CHECK = 'secrets';

/** Checks whether the server would start with these keys, where no other check tries the secrets. */
export async function checkSealingKey(
  { DATA_DIR }: Config,
  { db, sealer }: { db: Queryable; sealer: Sealer | undefined },
): Promise<Finding[]> {
  if (sealer === undefined) {
    const needed = await keysInUse(db);
    if (needed.length === 0) return [];
    return [
      problem(
        CHECK,
        `${keyPath(DATA_DIR)} is missing, and the secrets in the database were encrypted with ` +
          `the key ${needed.join(', ')}`,
        'restore your copy of the file, or set SECRET_KEY',
      ),
    ];
  }
  const fit = await keyFit({ db, sealer });
  if (fit.kind !== 'claimed') return [];
  return [
    problem(
      CHECK,
      `another server has set up this database with the key ${fit.keyId}, this one has ${sealer.keyIds[0]}`,
      `give both the same SECRET_KEY, or copy the secret.key of the other server to ${keyPath(DATA_DIR)}`,
    ),
  ];
}

/** The integrations whose config needs a missing key. */
export async function checkIntegrations(deps: { db: Queryable; sealer: Sealer }): Promise<Finding[]> {
  const lines = describeUnreadable(await unreadableIntegrations(deps));
  const advice = 'add the key to SECRET_KEY (several: separated by commas), or save the integrations again';
  return lines.map((line) => problem('integrations', line, advice));
}

/** The webhooks whose secrets need a missing key. */
export async function checkWebhooks(deps: { db: Queryable; sealer: Sealer }): Promise<Finding[]> {
  const lines = await describeUnreadableWebhooks(deps);
  const advice = 'add the key to SECRET_KEY (several: separated by commas), or rotate the secrets';
  return lines.map((line) => problem('webhooks', line, advice));
}
