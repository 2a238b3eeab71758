import type { Config } from '../config.ts';
import { type ConnectionSettings, openDatabase } from '../db/client.ts';
import { describeUnreadableWebhooks } from '../domain/after/webhooks/secrets.ts';
import { describeUnreadable, unreadableIntegrations } from '../domain/ground/secrets/unreadable.ts';
import { keyFit, keysInUse } from '../domain/setup/projects/sealing-key.ts';
import { keyPath } from '../lib/seal.ts';
import { sealerOf } from './doctor/sealing.ts';

/**
 * Why the keys of this machine do not decrypt the secrets of a restored database, and what to do: a line per
 * problem. A start would fail or log the same.
 */
export async function secretProblems(config: Config, connection: ConnectionSettings): Promise<string[]> {
  const path = keyPath(config.DATA_DIR);
  const db = openDatabase(connection, { size: 1, name: 'belfry restore' });
  try {
    const { sealer, reason } = sealerOf(config);
    if (sealer === undefined) {
      const needed = await keysInUse(db);
      if (needed.length === 0) return [];
      const why = reason ?? `${path} is missing`;
      return [
        `${why}, and the secrets in the database were encrypted with the key ${needed.join(', ')}: ` +
          'before you start Belfry, copy the secret.key of the backed-up server there, or set SECRET_KEY',
      ];
    }
    const fit = await keyFit({ db, sealer });
    const own = config.SECRET_KEY.length > 0 ? 'SECRET_KEY' : path;
    const remedy =
      config.SECRET_KEY.length > 0
        ? 'add the secret.key of the backed-up server, or its SECRET_KEY, to yours, separated by a comma'
        : `copy the secret.key of the backed-up server to ${path}, or set its SECRET_KEY`;
    if (fit.kind === 'other_keys')
      return [`${own} does not decrypt its secrets (${fit.problem}): before you start Belfry, ${remedy}`];
    return [
      ...(fit.kind === 'fits' ? fit.problems : []).map(
        (line) => `some projects cannot be used (${line}): ${remedy}`,
      ),
      ...describeUnreadable(await unreadableIntegrations({ db, sealer })).map(
        (line) => `${line}: ${remedy}, or save the integrations again`,
      ),
      ...(await describeUnreadableWebhooks({ db, sealer })).map(
        (line) => `${line}: ${remedy}, or rotate the secrets`,
      ),
    ];
  } finally {
    await db.close();
  }
}
