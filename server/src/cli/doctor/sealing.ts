import type { Config } from '../../config.ts';
import type { Queryable } from '../../db/client.ts';
import { countUnreadable } from '../../domain/after/sealing/reseal.ts';
import { describeUnreadableWebhooks } from '../../domain/after/webhooks/secrets.ts';
import { describeUnreadable, unreadableIntegrations } from '../../domain/ground/secrets/unreadable.ts';
import { keyFit, keysInUse } from '../../domain/setup/projects/sealing-key.ts';
import { createSealer, keyPath, loadKey, type Sealer } from '../../lib/seal.ts';
import { reasonOf } from '../reason-of.ts';
import { type Finding, ok, problem, warning } from './finding.ts';

const CHECK = 'secrets';

/** The sealer of the server, but without creating a key. `reason`: why the key file cannot be used. */
export function sealerOf({ SECRET_KEY, DATA_DIR }: Pick<Config, 'SECRET_KEY' | 'DATA_DIR'>): {
  sealer?: Sealer;
  reason?: string;
} {
  if (SECRET_KEY.length > 0) return { sealer: createSealer(SECRET_KEY) };
  try {
    const key = loadKey(DATA_DIR);
    return key === undefined ? {} : { sealer: createSealer([key]) };
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return {
      reason:
        code === undefined ? reasonOf(error) : `${keyPath(DATA_DIR)} cannot be read (${reasonOf(error)})`,
    };
  }
}

/** The keys of a database that does not run: the secrets in it cannot be tried. */
export function checkKeyAlone(config: Config): Finding {
  const { sealer, reason } = sealerOf(config);
  const path = keyPath(config.DATA_DIR);
  if (sealer !== undefined) return ok(CHECK, 'not checked, because the database does not run');
  if (reason !== undefined) return problem(CHECK, reason, 'restore your copy of the file, or set SECRET_KEY');
  return warning(
    CHECK,
    `${path} is missing, and the database, which does not run, may need it`,
    'restore your copy of the file before the next start, or set SECRET_KEY',
  );
}

/** Checks whether the server would start with these keys, where no other check tries the secrets. */
export async function checkSealingKey(
  { DATA_DIR }: Config,
  { db, sealer, reason }: { db: Queryable; sealer: Sealer | undefined; reason?: string | undefined },
): Promise<Finding[]> {
  if (sealer === undefined) {
    const needed = await keysInUse(db);
    if (needed.length === 0 && reason === undefined) return [];
    const why = reason ?? `${keyPath(DATA_DIR)} is missing`;
    if (needed.length === 0) return [problem(CHECK, why, 'restore your copy of the file, or set SECRET_KEY')];
    return [
      problem(
        CHECK,
        `${why}, and the secrets in the database were encrypted with the key ${needed.join(', ')}`,
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

/** The other secrets in the database that need a missing key. */
export async function checkOtherSecrets(deps: { db: Queryable; sealer: Sealer }): Promise<Finding[]> {
  const found = await countUnreadable(deps);
  return [...Map.groupBy(found, ({ key_id }) => key_id)].map(([keyId, those]) => {
    const counts = those.map(({ name, count }) => `${name}: ${count}`).join(', ');
    return problem(
      CHECK,
      `encrypted with the key ${keyId}, which this server does not have: ${counts}`,
      'add the key to SECRET_KEY (several: separated by commas)',
    );
  });
}
