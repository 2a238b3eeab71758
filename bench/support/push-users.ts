import { sealToken } from '../../server/src/domain/people/tokens/sealed.ts';
import { tokenHash } from '../../server/src/domain/people/tokens/token-hash.ts';
import { newId } from '../../server/src/lib/ids.ts';
import { createSealer, loadOrCreateKey } from '../../server/src/lib/seal.ts';
import { tokenCollection } from '../../server/src/providers/index.ts';
import type { Belfry } from './belfry.ts';

const STEP = 20_000;

/** Adds users `<prefix>0` … with an FCM token each, many per statement. */
export async function createPushUsers(
  { db, dataDir, projectId }: Belfry,
  prefix: string,
  count: number,
): Promise<void> {
  const sealer = createSealer([loadOrCreateKey(dataDir)]);
  const client = await db.connect();
  try {
    for (let from = 0; from < count; from += STEP) {
      const rows = Array.from({ length: Math.min(STEP, count - from) }, (_, index) => {
        const body = { device_token: `${prefix}${from + index}`.padEnd(152, 'x') };
        const [userId, id] = [newId(), newId()];
        const json = JSON.stringify(body);
        const hash = tokenHash(tokenCollection('fcm').identity(body));
        return { userId, id, hash, sealed: sealToken(sealer, userId, id, json) };
      });
      await client.query(
        `with given as (
          select *
          from unnest($2::uuid[], $3::text[], $4::uuid[], $5::bytea[], $6::bytea[])
            as g (user_id, name, id, hash, sealed)
        ),
        made as (
          insert into users (id, project_id, external_id, first_name, created_at, updated_at)
          select user_id, $1::uuid, name, 'Ada', now(), now() from given
        ),
        keys as (
          insert into user_keys (project_id, kind, value, user_id)
          select $1::uuid, 'external_id', name, user_id from given
        ),
        owners as (
          insert into token_owners (project_id, channel, hash, user_id, token_id)
          select $1::uuid, $7, hash, user_id, id from given
        )
        insert into tokens (user_id, id, project_id, channel, hash, sealed_data, created_at)
        select user_id, id, $1::uuid, $7, hash, sealed, now() from given`,
        [
          projectId,
          rows.map((row) => row.userId),
          rows.map((_, index) => `${prefix}${from + index}`),
          rows.map((row) => row.id),
          rows.map((row) => row.hash),
          rows.map((row) => row.sealed),
          tokenCollection('fcm').collection,
        ],
      );
    }
    await client.query('vacuum (analyze) users, user_keys, tokens, token_owners');
  } finally {
    await client.end();
  }
}
