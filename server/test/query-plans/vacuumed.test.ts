import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Database, openDatabase, sql } from '../../src/db/client.ts';
import { newId } from '../../src/lib/ids.ts';
import { allStatements } from '../support/all-statements.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';

// Tables that are emptied and filled again. The plans that PostgreSQL makes after it has vacuumed them empty
// are used until the next vacuum, although 600,000 rows may have come meanwhile.
const TABLES = [
  'jobs',
  'rate_windows',
  'rate_schedules',
  'webhook_messages',
  'workflow_digests',
  'workflow_digest_items',
  'workflow_runs',
  'workflow_run_steps',
  'workflow_throttles',
];
// What reads a whole index nevertheless.
const ALLOWED = new Set([
  // Of the jobs at work: at most a few thousand.
  'lease_end: jobs by jobs_leased',
  'release_node: jobs by jobs_leased',
  'rescue: jobs by jobs_leased',
  'rescue_everything: jobs by jobs_leased',
  // With a limit.
  'last_job: jobs by jobs_pkey',
  'measure_queue: jobs by jobs_leased',
  'measure_queue: jobs by jobs_scheduled',
  // By an index of open digests.
  'close_workflow_digest: workflow_digests by workflow_digests_open',
  // Every ten minutes, and rows that expire after minutes.
  'rate_purge: rate_windows by Seq Scan',
  'purge_rate_schedules: rate_schedules by Seq Scan',
  // Only for broadcasts that have not been fanned out.
  'erase_broadcast_content: jobs by Seq Scan',
]);

interface Node {
  'Node Type': string;
  'Relation Name'?: string;
  'Index Name'?: string;
  'Index Cond'?: string;
  'Recheck Cond'?: string;
  'TID Cond'?: string;
  Plans?: Node[];
}

let database: TestDatabase;
let db: Database;
beforeAll(async () => {
  database = await createTestDatabase();
  db = openDatabase(database.connection, { size: 1, name: 'vacuumed', isDistributed: false });
  await db.query(sql('', 'vacuum analyze'));
});
afterAll(async () => {
  await db?.close();
  await database?.drop();
});

async function planOf(text: string): Promise<Node> {
  const [row] = await db.query<{ 'QUERY PLAN': string }>(
    sql('', `explain (generic_plan, format json) ${text}`),
  );
  const [{ Plan: plan }] = JSON.parse(row?.['QUERY PLAN'] ?? '') as [{ Plan: Node }];
  return plan;
}

function nodesOf(node: Node): Node[] {
  return [node, ...(node.Plans ?? []).flatMap(nodesOf)];
}

/** Reads of a whole table or index, as `table by index`. */
function wholeReads(node: Node): string[] {
  const below = (node.Plans ?? []).flatMap(wholeReads);
  const table = node['Relation Name'];
  const isBounded = [node['Index Cond'], node['Recheck Cond'], node['TID Cond']].some(Boolean);
  if (table === undefined || isBounded || !node['Node Type'].endsWith('Scan')) return below;
  return [`${table} by ${node['Index Name'] ?? node['Node Type']}`, ...below];
}

test('no plan that is made while a queue is empty reads all of it later', async () => {
  const found = new Set<string>();
  for (const [name, text] of await allStatements()) {
    if (!/^\s*(select|with|insert|update|delete)\b/.test(text)) continue;
    for (const read of wholeReads(await planOf(text)))
      if (TABLES.some((table) => read.startsWith(`${table} `))) found.add(`${name}: ${read}`);
  }
  expect([...found].filter((one) => !ALLOWED.has(one))).toEqual([]);
});

// After a long queue, its indexes are large, and the smallest one is as good as another for a few jobs.
test.each([0, 1, 20])(
  'claims read a few jobs beside any number if they were planned when the queue had %i',
  async (count) => {
    const fill = (rows: number, of: string) =>
      db.query(
        sql(
          '',
          `insert into jobs (kind, project_id, partition_key, payload)
          select 'deliver', ${of}, ${of}, '{}'
          from generate_series(1, ${rows})`,
        ),
      );
    await fill(30_000, `'${newId()}'`);
    await db.query(sql('', 'delete from jobs'));
    await db.query(sql('', 'vacuum analyze jobs'));
    await fill(count, 'gen_random_uuid()');
    await db.query(sql('', 'analyze jobs'));
    for (const [name, text] of await allStatements()) {
      if (!/^claim_(urgent|oldest)_by/.test(name)) continue;
      const nodes = nodesOf(await planOf(text));
      const indexes = nodes.map((node) => node['Index Name']);
      expect(indexes, name).toContain('jobs_pkey');
      // Without the partition, these would read all ready jobs of the kind.
      for (const node of nodes)
        if (node['Relation Name'] === 'jobs' && node['Index Name'] !== 'jobs_pkey' && node['Index Name'])
          expect(node['Index Cond'], `${name} by ${node['Index Name']}`).toMatch(/project_id|partition_key/);
      // A join with the batch would read it again for each of its jobs.
      const update = nodes.find((node) => node['Node Type'] === 'ModifyTable');
      expect(update?.Plans?.map((node) => node['Node Type']).join(), name).not.toMatch(/Loop|Join/);
    }
    await db.query(sql('', 'delete from jobs'));
  },
);

// A first import or large broadcast comes to a project that had few users when PostgreSQL last looked.
test.each([0, 1, 100, 1_000])(
  'identities are looked up by their values if there were %i of them',
  async (count) => {
    await db.query(
      sql(
        '',
        `insert into user_keys (project_id, kind, value, user_id)
      select $1, 'external_id', 'user-' || i, gen_random_uuid()
      from generate_series(1, $2::int) i`,
      ),
      [newId(), count],
    );
    await db.query(sql('', 'analyze user_keys'));
    const plan = await planOf((await allStatements()).get('select_owners') ?? '');
    expect(JSON.stringify(plan)).toMatch(/"Index Cond":"[^"]*value = ANY/);
    expect(wholeReads(plan)).toEqual([]);
    await db.query(sql('', 'truncate user_keys'));
  },
);
