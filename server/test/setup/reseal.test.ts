import { createHash, randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { type Database, openDatabase, sql } from '../../src/db/client.ts';
import { reseal } from '../../src/domain/after/sealing/reseal.ts';
import { openSecret, sealSecret, secretPurpose } from '../../src/domain/after/webhooks/secrets.ts';
import { storedResponsePurpose } from '../../src/domain/ground/requests/idempotency.ts';
import { addressKeyPurpose } from '../../src/domain/ground/suppressions/address-keys.ts';
import { installationPurpose } from '../../src/domain/people/installations/record.ts';
import { openToken, sealToken, tokenPurpose } from '../../src/domain/people/tokens/sealed.ts';
import { insertCell, listCells, sealedCell, urlsOf } from '../../src/domain/setup/cells/cells.ts';
import { sealedFor } from '../../src/domain/setup/integrations/cache.ts';
import { createProject } from '../../src/domain/setup/projects/create.ts';
import { openKey } from '../../src/domain/setup/projects/keys.ts';
import { rollKey } from '../../src/domain/setup/projects/roll-key.ts';
import { claimSealingKey, keyFit } from '../../src/domain/setup/projects/sealing-key.ts';
import { newId } from '../../src/lib/ids.ts';
import { createSealer, type Sealer } from '../../src/lib/seal.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';

const [oldKey, newKey] = [randomBytes(32), randomBytes(32)];
const before = createSealer([oldKey]);
const both = createSealer([newKey, oldKey]);
const after = createSealer([newKey]);
const TOKENS = 1_203; // more than two pages

let database: TestDatabase;
let db: Database;

beforeAll(async () => {
  database = await createTestDatabase();
  db = openDatabase(database.connection, { size: 4, name: 'reseal' });
});
afterAll(async () => {
  await db?.close();
  await database?.drop();
});

const silent = { publish() {}, subscribe: () => () => {} };

/** Writes a row into every table with a sealed column, sealed with this sealer, and many tokens. */
async function fill(sealer: Sealer) {
  const project = await createProject({ db, sealer }, `of ${newId()}`);
  if (project === undefined) throw new Error('a project of that name exists');
  const { id: projectId, apiSecret } = project;
  for (const kind of ['api_secret', 'signing_key'] as const)
    await rollKey({ db, sealer, bus: silent }, { projectId, kind, overlapMs: 60_000 });
  const [userId, integrationId, webhookId] = [newId(), newId(), newId()];
  const run = (text: string, values: unknown[]) => db.query(sql('', text), values);
  await run(`insert into integrations values ($1, $2, 'smtp', $3, now(), now())`, [
    integrationId,
    projectId,
    sealer.seal('{"host":"mail"}', sealedFor(projectId, integrationId)),
  ]);
  const place = { projectId, provider: 'slack', id: 'A1-T1', ownerId: userId };
  await run(
    `insert into installations (project_id, provider, id, owner_id, installed_by,
                               sealed_record, created_at, updated_at)
    values ($1, 'slack', 'A1-T1', $2, $2, $3, now(), now())`,
    [projectId, userId, sealer.seal('{}', installationPurpose(place))],
  );
  await run(
    `insert into webhooks (id, project_id, url, sealed_secret, sealed_former_secret,
                          feed_id, created_at, updated_at)
    values ($1, $2, 'https://example.com', $3, $4, $1, now(), now())`,
    [webhookId, projectId, sealSecret(sealer, webhookId, 'whsec_one'), sealSecret(sealer, webhookId, 'two')],
  );
  const cellName = `c_${newId().slice(-12)}`;
  const urls = { url: 'postgres://a:b@pool/c', directUrl: 'postgres://a:b@db/c' };
  await insertCell(db, sealedCell({ sealer }, { name: cellName, schema: 'public', urls }));
  await run('insert into suppression_keys values ($1, $2, now())', [
    projectId,
    sealer.seal('address key', addressKeyPurpose(projectId)),
  ]);
  const kept = sealer.seal('{"auth_token":"x"}', storedResponsePurpose(projectId, 'scope of it', 'k1'));
  await run(
    `insert into idempotency_keys values
      ($1, 'scope of it', 'k1', '', 200, $2, now()),
      ($1, 'scope of it', 'k2', '', 200, '{"plain":true}', now())`,
    [projectId, kept.toString('base64')],
  );
  const tokens = Array.from({ length: TOKENS }, () => newId());
  await run(
    `insert into tokens (user_id, id, project_id, channel, hash, sealed_data, created_at)
    select $1, id, $2, 'fcm', hash, sealed, now()
         from unnest($3::uuid[], $4::bytea[], $5::bytea[]) as t (id, hash, sealed)`,
    [
      userId,
      projectId,
      tokens,
      tokens.map((id) => createHash('sha256').update(id).digest()),
      tokens.map((id) => sealToken(sealer, userId, id, `{"token":"${id}"}`)),
    ],
  );
  return { projectId, apiSecret, userId, integrationId, webhookId, place, tokens, cellName, urls };
}

/** How many values of each sealed column, as listed by the catalogue, name this key. */
async function sealedWith(sealer: Sealer): Promise<Record<string, number>> {
  const columns = await db.query<{ table: string; column: string }>(
    sql(
      '',
      `select table_name::text as table, column_name::text as column from information_schema.columns
      where table_schema = 'public'
          and (column_name like 'sealed%'
               or column_name = 'body' and table_name = 'idempotency_keys')`,
    ),
  );
  const counts: Record<string, number> = {};
  for (const { table, column } of columns) {
    const bytes = column === 'body' ? `decode(substring(${column} for 8), 'base64')` : column;
    const where = column === 'body' ? `where body like 'A%'` : '';
    const [row] = await db.query<{ count: number }>(
      sql(
        '',
        `select count(*) as count
         from (select ${bytes} as b from ${table} ${where}) s
         where substring(b from 2 for 4) = $1`,
      ),
      [Buffer.from(sealer.keyIds[0], 'hex')],
    );
    counts[`${table}.${column}`] = row?.count ?? 0;
  }
  return counts;
}

const totalOf = (counts: Record<string, number>) => Object.values(counts).reduce((sum, one) => sum + one, 0);

test('afterwards every secret opens with the new key alone, and a second run changes nothing', async () => {
  const made = await fill(before);
  // Every sealed column has a value here, so that one that reseal does not know would be noticed.
  expect(Object.values(await sealedWith(before))).not.toContain(0);

  const results = await reseal({ db, sealer: both });
  expect(await sealedWith(before)).toEqual(
    Object.fromEntries(Object.keys(await sealedWith(before)).map((name) => [name, 0])),
  );
  for (const { byKey, unopenable, total, resealed } of results) {
    expect([...byKey.keys()]).toEqual([both.keyIds[0]]);
    expect([unopenable.size, resealed]).toEqual([0, total]);
  }

  const { projectId, userId, integrationId, webhookId, place, tokens, cellName, urls } = made;
  const cell = (await listCells(db)).find(({ name }) => name === cellName);
  expect(cell && urlsOf({ sealer: after }, cell)).toEqual(urls);
  const one = async (text: string) =>
    (await db.query<{ v: Buffer }>(sql('', text), [projectId]))[0]?.v as Buffer;
  const opened = (sealed: Buffer, purpose: string) => after.open(sealed, purpose).toString();
  expect(
    opened(
      await one('select sealed_config as v from integrations where project_id = $1'),
      sealedFor(projectId, integrationId),
    ),
  ).toBe('{"host":"mail"}');
  expect(
    opened(
      await one('select sealed_record as v from installations where project_id = $1'),
      installationPurpose(place),
    ),
  ).toBe('{}');
  expect(
    openSecret(after, webhookId, await one('select sealed_secret as v from webhooks where project_id = $1')),
  ).toBe('whsec_one');
  expect(
    opened(
      await one('select sealed_former_secret as v from webhooks where project_id = $1'),
      secretPurpose(webhookId),
    ),
  ).toBe('two');
  expect(
    opened(
      await one('select sealed_key as v from suppression_keys where project_id = $1'),
      addressKeyPurpose(projectId),
    ),
  ).toBe('address key');
  expect(
    opened(
      await one(
        `select decode(body, 'base64') as v from idempotency_keys where project_id = $1 and key = 'k1'`,
      ),
      storedResponsePurpose(projectId, 'scope of it', 'k1'),
    ),
  ).toBe('{"auth_token":"x"}');
  const sealed = await one(
    `select sealed_key as v from former_project_keys where project_id = $1 and kind = 'api_secret'`,
  );
  const former = openKey(after, { projectId, kind: 'api_secret', sealed, validUntilMs: 0 });
  expect(former.key.export().toString()).toBe(made.apiSecret);
  const rows = await db.query<{ id: string; sealed_data: Buffer }>(
    sql('', 'select id, sealed_data from tokens where project_id = $1'),
    [projectId],
  );
  expect(new Set(rows.map((row) => openToken(after, userId, row.id, row.sealed_data)))).toEqual(
    new Set(tokens.map((id) => `{"token":"${id}"}`)),
  );

  expect((await reseal({ db, sealer: both })).map(({ resealed }) => resealed)).toEqual(results.map(() => 0));
});

test('two concurrent runs, one of them interrupted, leave every secret whole', async () => {
  const { userId, projectId, tokens } = await fill(before);
  let pages = 0;
  const broken = reseal({ db, sealer: both }, () => {
    pages += 1;
    if (pages === 4) throw new Error('killed');
  });
  const [one, other] = await Promise.allSettled([reseal({ db, sealer: both }), broken]);
  expect([one.status, other.status]).toEqual(['fulfilled', 'rejected']);
  expect(totalOf(await sealedWith(before))).toBe(0);
  const rows = await db.query<{ id: string; sealed_data: Buffer }>(
    sql('', 'select id, sealed_data from tokens where project_id = $1'),
    [projectId],
  );
  expect(rows.map((row) => openToken(after, userId, row.id, row.sealed_data)).filter(Boolean)).toHaveLength(
    tokens.length,
  );
});

test('concurrent writes are kept, and values of unknown keys are counted and kept', async () => {
  const { userId, tokens } = await fill(before);
  const stranger = createSealer([randomBytes(32)]);
  const [lost = '', written = ''] = tokens;
  const write = (sealer: Sealer, id: string, text: string) =>
    db.query(sql('', 'update tokens set sealed_data = $3 where user_id = $1 and id = $2'), [
      userId,
      id,
      sealer.seal(text, tokenPurpose(userId, id)),
    ]);
  await write(stranger, lost, 'lost');
  let wrote: Promise<unknown> | undefined;
  // Writes after its page was read and before it is stored. The page's statement waits for nothing, so either
  // may come first.
  const results = await reseal({ db, sealer: both }, ({ name }) => {
    if (name === 'tokens') wrote ??= write(before, written, 'written');
  });
  await wrote;
  const ofTokens = results.find(({ name }) => name === 'tokens');
  expect(ofTokens?.unopenable).toEqual(new Map([[stranger.keyIds[0], 1]]));
  expect(ofTokens?.byKey.get(stranger.keyIds[0])).toBe(1);
  const [row] = await db.query<{ sealed_data: Buffer }>(
    sql('', 'select sealed_data from tokens where user_id = $1 and id = $2'),
    [userId, written],
  );
  expect(openToken(both, userId, written, row?.sealed_data ?? Buffer.alloc(0))).toBe('written');
  await reseal({ db, sealer: both });
  expect(totalOf(await sealedWith(before))).toBe(0);
});

test('a database without projects opens with the new key alone', async () => {
  const empty = await createTestDatabase();
  const other = openDatabase(empty.connection, { size: 1, name: 'reseal empty' });
  onTestFinished(async () => {
    await other.close();
    await empty.drop();
  });
  expect(await claimSealingKey({ db: other, sealer: before })).toMatchObject({ kind: 'fits' });
  // Nothing shows that the new key belongs to this database.
  await reseal({ db: other, sealer: after });
  expect(await keyFit({ db: other, sealer: after })).toMatchObject({ kind: 'claimed' });
  await reseal({ db: other, sealer: both });
  expect(await keyFit({ db: other, sealer: after })).toMatchObject({ kind: 'fits' });
  // An earlier release replaced the keys of secrets, but not the recorded one.
  await other.query(sql('', 'update sealing_key set key_id = $1'), [before.keyIds[0]]);
  await createProject({ db: other, sealer: after }, 'resealed before');
  await reseal({ db: other, sealer: after });
  await other.query(sql('', 'delete from projects'));
  expect(await keyFit({ db: other, sealer: after })).toMatchObject({ kind: 'fits' });
});
