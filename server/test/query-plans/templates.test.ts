import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { uuidArray } from '../../src/db/arrays.ts';
import { type Database, openDatabase } from '../../src/db/client.ts';
import { TEXTS_OF_USERS } from '../../src/domain/after/erasure/purge-users.ts';
import type { TemplateReference } from '../../src/domain/line/broadcasts/stored-broadcast.ts';
import { insertTexts, loadTexts } from '../../src/domain/line/notifications/texts.ts';
import { openTemplates } from '../../src/domain/line/rendering/templates.ts';
import { getTemplate, listTemplates, templateVersions } from '../../src/domain/setup/templates/get.ts';
import { loadParts } from '../../src/domain/setup/templates/parts.ts';
import { deleteTemplate, saveTemplate } from '../../src/domain/setup/templates/save.ts';
import { NEWEST } from '../../src/lib/cursor.ts';
import { newId } from '../../src/lib/ids.ts';
import { packJson } from '../../src/lib/packed-json.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { readsOf } from '../support/reads-of.ts';
import { rowsOf } from '../support/rows.ts';

// What templates read. The plans are generic, first those made while the tables were empty, then those made
// when they were full.

const TEMPLATES = 500;
const VERSIONS = 300;
const [projectId, other] = [newId(), newId()];
const readers = Array.from({ length: TEMPLATES }, () => newId());
const clock = { now: Date.now };
const reference: TemplateReference = { key: 't-2', version: 1, data: null, uses: { 't-3': 1 } };
const template = packJson(JSON.stringify(reference));
const partial = (content: string) => ({
  kind: 'partial' as const,
  default_locale: 'en',
  locales: { en: { content } },
});

let database: TestDatabase;
let db: Database;

/** A database whose transactions are part of the one that is rolled back. */
const joined = (): Database => ({ ...db, transaction: (work) => work(db) });

/** What an operation reads at most. */
const READS: [string, () => Promise<unknown>, number][] = [
  ['a template', () => getTemplate(db, projectId, 't-1'), 2],
  ['a version', () => templateVersions.get(db, projectId, 't-1', 7), 1],
  ['the versions', () => templateVersions.list(db, projectId, 't-1'), VERSIONS],
  ['a page', () => listTemplates(db, projectId, { direction: 'older', id: NEWEST, limit: 51 }), 51],
  ['a template with three levels of partials', () => loadParts(db, projectId, ['t-1']), 6],
  [
    'saving',
    () => saveTemplate({ db: joined(), clock }, projectId, 't-1', partial("{% render 't-2' %}")),
    // The sizes of all others, and which of them use it.
    2 * TEMPLATES + 10,
  ],
  ['the parts of a broadcast', () => openTemplates(db, [{ id: projectId, projectId, template }]), 2],
  [
    'texts of notifications',
    () => loadTexts(db, [{ id: newId(), user_id: readers[0] ?? '', broadcast_id: projectId, texts: '' }]),
    2,
  ],
  [
    'storing texts',
    () =>
      insertTexts(
        db,
        readers.map((reader) => ({
          broadcastId: other,
          reader,
          texts: { title: 'T', content: null, action_url: null },
        })),
        'careful',
      ),
    TEMPLATES,
  ],
  [
    'deleting texts of users',
    () => db.query(TEXTS_OF_USERS, [uuidArray(readers.map(() => projectId)), uuidArray(readers)]),
    2 * TEMPLATES,
  ],
  ['deleting', () => deleteTemplate({ db: joined() }, projectId, 't-1', async () => []), TEMPLATES + 1],
];

beforeAll(async () => {
  database = await createTestDatabase();
  db = openDatabase(database.connection, { size: 1, name: 'template plans', isDistributed: false });
  await rowsOf(db, 'set plan_cache_mode = force_generic_plan');
  for (const [, work] of READS) await readsOf(db, () => work().catch(() => undefined));
  const packed = packJson(JSON.stringify({ ...partial('text'), layout: null }));
  for (const owner of [projectId, other]) {
    await rowsOf(
      db,
      `insert into templates (project_id, key, id, kind, version, uses, size, created_at, updated_at)
      select $1, 't-' || n, gen_random_uuid(), 'partial', 1,
        case when n <= 2 then array['t-' || n + 1] else '{}' end, 100, now(), now()
      from generate_series(1, ${TEMPLATES}) n`,
      [owner],
    );
    await rowsOf(
      db,
      `insert into template_versions (project_id, key, version, content, created_at)
      select $1, 't-' || n, version, $2, now()
      from generate_series(1, ${TEMPLATES}) n,
        generate_series(1, case when n = 1 then ${VERSIONS} else 1 end) version`,
      [owner, packed],
    );
  }
  for (const id of [projectId, other])
    await rowsOf(
      db,
      `insert into broadcasts (id, project_id, message, total, status) values ($1, $1, $2, 0, 'processed')`,
      [id, packed],
    );
  await rowsOf(
    db,
    `insert into broadcast_texts (broadcast_id, reader, texts)
    select $1, reader, $2 from unnest($3::text[]) as r (reader)`,
    [projectId, packed, readers],
  );
});
afterAll(async () => {
  await db.close();
  await database.drop();
});

describe.each([
  ['plans made while the tables were empty', undefined],
  ['plans made when the tables were full', 'analyze'],
])('with %s', (_when, prepare) => {
  beforeAll(async () => {
    if (prepare !== undefined) await rowsOf(db, prepare);
  });

  test.each(READS)('%s reads a bounded number of rows', async (what, work, most) => {
    const { scanned, rows } = await readsOf(db, work);
    expect({ what, scanned, rows: rows <= most ? most : rows }).toEqual({ what, scanned: [], rows: most });
  });
});
