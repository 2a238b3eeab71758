import { randomBytes } from 'node:crypto';
import type pg from 'pg';

/** The project of the rows, and the id of most of them. */
export const FILLED_PROJECT = '01990000-0000-7000-8000-000000000001';

/** Writes rows to every table, with values that text formats often break. */
export async function fillTables(client: pg.Client): Promise<void> {
  const nasty = [
    'plain',
    '',
    '\\N',
    '\\.',
    'a\tb\nc\r\\d',
    '"quoted" \'too\'',
    'مرحبا 👋🏽 \u{10ffff}',
    ' ',
    '{a,b}',
  ];
  const id = FILLED_PROJECT;
  const at = '2026-02-03T04:05:06.789012Z';
  await client.query('begin');
  await client.query(
    `insert into projects (id, name, api_key, sealed_api_secret, sealed_signing_key, rate_limits)
    values ($1, 'default', 'key', $2, '', '{"reads":  1}')`,
    [id, randomBytes(64)],
  );
  await client.query(`insert into project_tokens values ($1, $1, 'token', $2, 'infinity', null)`, [id, at]);
  await client.query(`insert into former_project_keys values ($1, 'f00', 'api_secret', $2, $3, 'infinity')`, [
    id,
    randomBytes(64),
    at,
  ]);
  await client.query(`insert into cells values ('eu', 'belfry_eu', '\\x01', null, $1)`, [at]);
  await client.query(`insert into cell_projects values ($1, 'pk_of_eu', 'eu')`, [id]);
  await client.query(`insert into project_key_uses values ($1, 'f00', $2)`, [id, at]);
  await client.query(
    `insert into users
      (id, project_id, external_id, first_name, locale, custom_attributes, phone_numbers, created_at,
        updated_at)
    select gen_random_uuid(), $1, t, t, t, to_json(t), array[t, 'x,y', null], $3, '-infinity'
    from unnest($2::text[]) t`,
    [id, nasty, at],
  );
  await client.query(`insert into user_keys select $1, 'external_id', t, $1 from unnest($2::text[]) t`, [
    id,
    nasty,
  ]);
  await client.query(
    `insert into former_user_keys select gen_random_uuid(), 'external_id', t from unnest($1::text[]) t`,
    [nasty],
  );
  await client.query(`insert into refused_recipients values ($1, $1)`, [id]);
  await client.query(`insert into project_delivery_windows values ($1, '{"channels":[]}', true)`, [id]);
  await client.query('insert into tracking values ($1, true, false)', [id]);
  await client.query(`insert into rate_windows values ('window', 1770091446, '{1,2}', '{"node": [5, 1]}')`);
  await client.query(`insert into rate_schedules values ('limit', 1, '\\x00', $1)`, [at]);
  await client.query(`insert into user_delivery_windows values ($1, '{"channels":[]}', '{}')`, [id]);
  await client.query(`insert into subscriptions values ($1, $2, $1, $1, '{"*": {"status": "subscribed"}}')`, [
    id,
    nasty[0],
  ]);
  await client.query(`insert into preferences values ($1, 'c', 'email', false, $2)`, [id, at]);
  await client.query(`insert into tokens values ($1, $1, $1, 'inbox', 'a-b', $2, $3, $4)`, [
    id,
    randomBytes(32),
    randomBytes(300),
    at,
  ]);
  await client.query(`insert into token_owners values ($1, 'inbox', $2, $1, $1)`, [id, randomBytes(32)]);
  await client.query(`insert into integrations values ($1, $1, 'smtp', $2, $3, $3)`, [
    id,
    randomBytes(300),
    at,
  ]);
  await client.query(`insert into integration_pauses values ($1, $1, '', $2, $2, $2, '535', $3)`, [
    id,
    at,
    nasty.join(' '),
  ]);
  await client.query(
    `insert into installations
    select $1, 'slack', t, gen_random_uuid(), $1, $3, $3, $4, null, 'infinity', t, $4, $4
    from unnest($2::text[]) t`,
    [id, nasty, randomBytes(300), at],
  );
  await client.query(`insert into broadcasts (id, project_id, message) values ($1, $1, $2)`, [
    id,
    randomBytes(3_000_000),
  ]);
  await client.query(`insert into broadcast_users values ($1, 0, array[$1, $1]::uuid[])`, [id]);
  await client.query(
    `insert into notifications (user_id, id, broadcast_id, sent_at, topic)
    select $1, gen_random_uuid(), $1, $2, n::text from generate_series(1, 5000) n`,
    [id, at],
  );
  await client.query(
    `insert into deliveries values ($1, $1, 'email', $1, 'sent', 1, null, null, null, null, null, $2, $2)`,
    [id, at],
  );
  await client.query(`insert into events values ($1, $1, 'broadcast.created', null, '{}', 'null')`, [id]);
  await client.query(`insert into idempotency_keys values ($1, 's', 'k', '', 201, $2, $3)`, [
    id,
    nasty.join('|'),
    at,
  ]);
  await client.query(
    `insert into jobs (kind, project_id, payload) select 'k', $1, '{}' from generate_series(1, 50)`,
    [id],
  );
  await client.query('delete from jobs where id > 40'); // their numbers remain used
  await client.query(`insert into leases values ($1, 'node', $2)`, [id, at]);
  await client.query(`insert into categories values ($1, 'c', $1, '{"key":  "c"}', $2)`, [id, at]);
  await client.query(`insert into preference_categories values ($1, 'c', 'email')`, [id]);
  await client.query(
    `insert into webhooks (id, project_id, url, sealed_secret, feed_id, created_at, updated_at)
    values ($1, $1, '', '', $1, $2, $2)`,
    [id, at],
  );
  await client.query(`insert into webhook_messages values ($1, $1, 'user.created', 'sent', 1)`, [id]);
  await client.query('insert into webhook_replays values ($1, $1, true, $1, $1)', [id]);
  await client.query(
    `insert into suppressions
    select $1, gen_random_uuid(), 'email', sha256(t::bytea), t, 'bounced', 'smtp', t, t,
      array[$1, $1]::uuid[], $3, $3
    from unnest($2::text[]) t`,
    [id, nasty.filter((text) => !text.includes('\\')), at],
  );
  await client.query('insert into suppression_keys values ($1, $2, $3)', [id, randomBytes(90), at]);
  await client.query(`insert into user_imports values ($1, $1, 'processing', 2, 1, 1, 0, 0, $2, null)`, [
    id,
    at,
  ]);
  await client.query('insert into user_import_pages values ($1, 0, $2, null, 1)', [id, randomBytes(90)]);
  await client.query("insert into workflows values ($1, 'flow', 1, false, 9, $2, $2)", [id, at]);
  await client.query("insert into workflow_versions values ($1, 'flow', 1, $2, $3)", [
    id,
    randomBytes(90),
    at,
  ]);
  await client.query(
    `insert into workflow_runs (
      id, project_id, workflow_key, version, user_id, state, place, stage, turn, due_at, size, input,
      data, created_at, waits_for, depth
    )
    values ($1, $1, 'flow', 1, $1, 2, '0', 2, 3, $2, 9, $3, '{"a": 1}', $2, 'paid', 1)`,
    [id, at, randomBytes(90)],
  );
  await client.query(
    `insert into workflow_run_steps (run_id, place, command, state, started_at, output)
    values ($1, '0', 'wait', 'waiting', $2, '{}')`,
    [id, at],
  );
  await client.query(
    "insert into workflow_schedules values ($1, 'flow', 0, '@daily', 'UTC', false, $2, $3)",
    [id, randomBytes(90), at],
  );
  await client.query('insert into workflow_digests values ($1, $2, true, $3, $3, 1, 9)', [
    id,
    randomBytes(32),
    at,
  ]);
  await client.query('insert into workflow_digest_items values ($1, $1, $2)', [id, randomBytes(90)]);
  await client.query("insert into workflow_throttles values ($1, '[1, 2]', $2)", [randomBytes(32), at]);
  await client.query(
    "insert into templates values ($1, 'welcome', $1, 'message', 1, '{footer,main}', 9, $2, $2)",
    [id, at],
  );
  await client.query("insert into template_versions values ($1, 'welcome', 1, $2, $3)", [
    id,
    randomBytes(90),
    at,
  ]);
  await client.query("insert into broadcast_texts values ($1, 'en', $2)", [id, randomBytes(90)]);
  await client.query("insert into workflow_triggers values ($1, 'flow', 1, 'paid', 'event.data.a', $1)", [
    id,
  ]);
  await client.query('insert into workflow_feeds (project_id, feed_id) values ($1, $1)', [id]);
  await client.query('insert into workflow_broadcasts values ($1, 1)', [id]);
  await client.query('commit');
}
