import type { EVENT_TYPES } from '../../server/src/contract/event.ts';
import { sealSecret } from '../../server/src/domain/after/webhooks/secrets.ts';
import { sealToken } from '../../server/src/domain/people/tokens/sealed.ts';
import { sealedFor } from '../../server/src/domain/setup/integrations/cache.ts';
import { firstIdAt, newId } from '../../server/src/lib/ids.ts';
import { packJson } from '../../server/src/lib/packed-json.ts';
import { createSealer, loadOrCreateKey } from '../../server/src/lib/seal.ts';
import { integrations } from '../../server/src/providers/index.ts';
import type { Belfry } from './belfry.ts';
import { BROADCASTS, FEW, type Fill, inSteps, MANY } from './fill.ts';
import { type FullDeliveries, fillDeliveries, fillSuppressions, fillWindows } from './full-accounting.ts';
import { fillInboxes, ID_OF, NOTIFICATION_OF } from './large-table.ts';
import { CHANNELS } from './token-rows.ts';

/** Ids of a project whose tables are full. */
export interface FullTables {
  /** With 100,000 notifications, 1,000 tokens of each collection and preferences about 50 categories. */
  heavyUser: string;
  /** With a million messages. */
  webhook: string;
  deliveries: FullDeliveries;
}

/**
 * Fills every table that operations read: a million users, notifications, tokens, preferences, subscriptions,
 * events, deliveries, suppressions and messages of a webhook, 200,000 broadcasts, and 1,000 rows of kinds
 * that a project has few of. A full database is not changed.
 */
export async function fillTables(belfry: Belfry): Promise<FullTables> {
  const client = await belfry.db.connect();
  try {
    await client.query('create table if not exists bench_full (known json)');
    const { rows } = await client.query<{ known: string }>('select known::text from bench_full');
    if (rows[0] !== undefined) return JSON.parse(rows[0].known) as FullTables;
    const { heavyUser } = await fillInboxes(belfry.db, belfry.projectId);
    const sealer = createSealer([loadOrCreateKey(belfry.dataDir)]);
    const fill: Fill = { client, belfry, sealer, heavyUser };
    await fillUsers(fill);
    await fillNotifications(fill);
    await fillTokens(fill);
    await fillPreferences(fill);
    await fillSubscriptions(fill);
    await fillEvents(fill);
    await fillIntegrations(fill);
    const webhook = await fillWebhooks(fill);
    const deliveries = await fillDeliveries(fill);
    await fillSuppressions(fill);
    await fillWindows(fill);
    await client.query('vacuum (analyze)');
    const known: FullTables = { heavyUser, webhook, deliveries };
    await client.query('insert into bench_full values ($1)', [JSON.stringify(known)]);
    return known;
  } finally {
    await client.end();
  }
}

/**
 * Users with both identities, the 10,000 oldest with ids of an import; and some of another project.
 */
async function fillUsers(fill: Fill): Promise<void> {
  const externalId = `case when n <= 10000 then 'imported-' else 'user-' end || n`;
  await inSteps(
    fill,
    MANY,
    (numbers) => `with made as (
      insert into users
        (id, project_id, external_id, email, first_name, last_name, custom_attributes, phone_numbers,
          created_at, updated_at)
      select ${ID_OF('n')}, $1::uuid, ${externalId}, 'person' || n || '@example.com', 'Ada', 'Lovelace ' || n,
        '{"plan":"premium","language":"en"}', array['+4930' || n], now(), now()
      from ${numbers} as n
      returning id, external_id, email
    )
    insert into user_keys (project_id, kind, value, user_id)
    select $1::uuid, 'external_id', external_id, id from made
    union all
    select $1::uuid, 'email', email, id from made`,
    [fill.belfry.projectId],
  );
  await fill.client.query(
    `insert into users (id, project_id, external_id, created_at, updated_at)
    select gen_random_uuid(), $1, 'user-' || n, now(), now()
    from generate_series(1, 50000) as n`,
    [newId()],
  );
}

/**
 * Nine notifications of every tenth user, and the younger half of the broadcasts: most of `orders`, 2,000 of
 * `chat`, 100 of `news`. The users with large inboxes have none of the last two.
 */
async function fillNotifications(fill: Fill): Promise<void> {
  const json = (value: unknown) => packJson(JSON.stringify(value));
  await inSteps(
    fill,
    BROADCASTS / 2,
    (numbers) => `insert into broadcasts (id, project_id, category, topic, message, recipients, status, total)
    select ${ID_OF(`(n + ${BROADCASTS / 2})`)}, $1,
      case when n % 50 = 0 then 'chat' when n % 1000 = 1 then 'news' else 'orders' end,
      case when n % 3 = 0 then 'order-' || n end, $2, $3, 'processed', 2
    from ${numbers} as n`,
    [
      fill.belfry.projectId,
      json({
        title: 'Your order is on its way',
        content: 'It arrives tomorrow.',
        action_url: null,
        custom_attributes: null,
      }),
      json([{ external_id: 'user-20000' }, { email: 'person30000@example.com' }]),
    ],
  );
  await inSteps(
    fill,
    MANY / 10,
    (numbers) => `insert into notifications (user_id, id, broadcast_id, sent_at, category)
    select ${ID_OF('(u * 10)')}, ${NOTIFICATION_OF('b', 'u * 10')}, ${ID_OF('b')}, now(),
      case when b <= ${BROADCASTS / 2} then 'orders' when b % 50 = 0 then 'chat'
        when b % 1000 = 1 then 'news' else 'orders' end
    from ${numbers} as u,
      lateral (select (u * 7 + k * 10007) % ${BROADCASTS} + 1 as b from generate_series(1, 9) as k) as k`,
    [],
  );
}

/** 1,000 tokens of each collection for the heavy user, with real secrets; one for each other user. */
async function fillTokens(fill: Fill): Promise<void> {
  const { client, belfry, sealer, heavyUser } = fill;
  for (const { name, owned, row } of CHANNELS) {
    const rows = spreadIds().map((id, n) => {
      const made = row(`${name.replaceAll('/', '-')}-${String(n).padStart(32, '0')}`);
      return { id, ...made, sealed: sealToken(sealer, heavyUser, id, made.json) };
    });
    await client.query(
      `with made as (
        insert into tokens (user_id, id, project_id, channel, public_id, hash, sealed_data, created_at)
        select $1, id, $2, $3, public_id, hash, sealed, now()
        from unnest($4::uuid[], $5::text[], $6::bytea[], $7::bytea[]) as t (id, public_id, hash, sealed)
        returning id, hash
      )
      insert into token_owners (project_id, channel, hash, user_id, token_id)
      select $2, $3, hash, $1, id from made where $8`,
      [
        heavyUser,
        belfry.projectId,
        name,
        rows.map((one) => one.id),
        rows.map((one) => one.publicId),
        rows.map((one) => one.hash),
        rows.map((one) => one.sealed),
        owned,
      ],
    );
  }
  await inSteps(
    fill,
    MANY - CHANNELS.length * FEW,
    (numbers) => `with made as (
      insert into tokens (user_id, id, project_id, channel, hash, sealed_data, created_at)
      select ${ID_OF('n')}, ${ID_OF('n')}, $1::uuid, 'in_app/inbox',
        sha256(int4send(n)), sha512(int4send(n)), now()
      from ${numbers} as n
      returning user_id, id, channel, hash
    )
    insert into token_owners (project_id, channel, hash, user_id, token_id)
    select $1::uuid, channel, hash, user_id, id from made`,
    [belfry.projectId],
  );
}

/** 1,000 configured categories. Every user has a preference for one, the heavy user for 50. */
async function fillPreferences(fill: Fill): Promise<void> {
  const { client, belfry, heavyUser } = fill;
  await client.query(
    `insert into categories (project_id, key, id, config, updated_at)
    select $1, 'category/' || n, ${ID_OF('(n * 1000)')}, json_build_object('key', 'category/' || n,
      'channels', json_build_array(json_build_object('channel', 'in_app'),
        json_build_object('channel', 'email', 'delay', 900, 'if', 'notification.unseen'))), now()
    from generate_series(1, ${FEW}) as n`,
    [belfry.projectId],
  );
  await inSteps(
    fill,
    MANY,
    (numbers) => `insert into preferences (user_id, category, channel, enabled, updated_at)
    select ${ID_OF('n')}, 'category/' || n % ${FEW} + 1, 'email', false, now()
    from ${numbers} as n`,
    [],
  );
  await client.query(
    `insert into preferences (user_id, category, channel, enabled, updated_at)
    select $1, 'category/' || n, 'email', false, now()
    from generate_series(1, 50) as n`,
    [heavyUser],
  );
  await client.query(
    `insert into preference_categories (project_id, category, channel)
    select $1, 'category/' || n, 'email'
    from generate_series(1, ${FEW}) as n`,
    [belfry.projectId],
  );
}

/** One subscription for every user, and 1,000 for the heavy user. */
async function fillSubscriptions(fill: Fill): Promise<void> {
  const { client, belfry, heavyUser } = fill;
  const categories = `'{"*": {"status": "subscribed"}}'`;
  await inSteps(
    fill,
    MANY,
    (numbers) => `insert into subscriptions (user_id, topic, id, project_id, categories)
    select ${ID_OF('n')}, 'topic/' || n % ${FEW}, ${ID_OF('n')}, $1, ${categories}
    from ${numbers} as n`,
    [belfry.projectId],
  );
  await client.query(
    `insert into subscriptions (user_id, topic, id, project_id, categories)
    select $1, 'topic/' || n, ${ID_OF(`(n * 1000)`)}, $2, ${categories}
    from generate_series(1, ${FEW}) as n`,
    [heavyUser, belfry.projectId],
  );
}

/**
 * A million rows with one event and 1,000 rows with 1,000 each. Half of the rows are deliveries, one type has
 * only the oldest row, and most have none.
 */
async function fillEvents(fill: Fill): Promise<void> {
  // The low 16 bits number the events of a row.
  const idOf = (n: string, place = n) => ID_OF(n, `(${place}::bigint << 16)`);
  const types: (typeof EVENT_TYPES)[number][] = [
    'delivery.sent',
    'notification.read',
    'delivery.sent',
    'user.updated',
  ];
  await inSteps(
    fill,
    MANY,
    (numbers) => `insert into events (project_id, id, type, broadcast_id, user_ids, details)
    select $1, ${idOf('n')},
      case when n = 1 then 'integration.deleted' when n % 1000 = 999 then 'delivery.failed'
        else ($2::text[])[n % 4 + 1] end,
      case when n % 4 < 3 then ${ID_OF(`(n % ${BROADCASTS} + 1)`)} end, array[${ID_OF('n')}],
      '{"level":"info","context":{"channel":"email","provider":"smtp","attempt":1,"duration_ms":42}}'
    from ${numbers} as n`,
    [fill.belfry.projectId, types],
  );
  await fill.client.query(
    `insert into events (project_id, id, type, broadcast_id, user_ids)
    select $1, ${idOf('(b * 1000)', `(${MANY} + b)`)}, 'notification.created', ${ID_OF('(b * 100)')},
      (select array_agg(${ID_OF('(b * 900 + u)')}) from generate_series(1, 1000) as u)
    from generate_series(1, 999) as b`,
    [fill.belfry.projectId],
  );
}

/** 1,000 integrations: one of each provider, the others of the first. */
async function fillIntegrations({ client, belfry, sealer }: Fill): Promise<void> {
  const providers = Object.entries(integrations).map(([name, { config }]) => {
    const { examples: [example] = [{}] } = config as { examples?: object[] };
    return [name, example] as const;
  });
  const rows = spreadIds().map((id, n) => {
    const [provider, config] = providers[n] ?? providers[0] ?? ['', {}];
    return { id, provider, sealed: sealer.seal(JSON.stringify(config), sealedFor(belfry.projectId, id)) };
  });
  await client.query(
    `insert into integrations (id, project_id, provider, sealed_config, created_at, updated_at)
    select id, $1, provider, sealed, now(), now()
    from unnest($2::uuid[], $3::text[], $4::bytea[]) as i (id, provider, sealed)`,
    [
      belfry.projectId,
      rows.map((one) => one.id),
      rows.map((one) => one.provider),
      rows.map((one) => one.sealed),
    ],
  );
}

/** 1,000 webhooks, disabled so that they send nothing. One has a million messages. */
async function fillWebhooks(fill: Fill): Promise<string> {
  const { client, belfry, sealer } = fill;
  const ids = spreadIds();
  await client.query(
    `insert into webhooks
      (id, project_id, url, event_types, sealed_secret, disabled_at, feed_id, created_at, updated_at)
    select id, $1, 'https://example.com/webhooks/' || id, array['delivery.*'], sealed, now(), id, now(), now()
    from unnest($2::uuid[], $3::bytea[]) as w (id, sealed)`,
    [
      belfry.projectId,
      ids,
      ids.map((id) => sealSecret(sealer, id, 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw')),
    ],
  );
  const webhook = ids[FEW / 2] ?? '';
  await inSteps(
    fill,
    MANY,
    (numbers) => `insert into webhook_messages
      (webhook_id, id, type, state, attempts, status, reason, duration_ms, last_attempt_at)
    select $1, ${ID_OF('n')}, 'delivery.sent',
      case when n % 1000 = 0 then 'failed' when n % 5000 = 1 then 'retrying' else 'sent' end,
      1, 200, null, 12, now()
    from ${numbers} as n`,
    [webhook],
  );
  return webhook;
}

/** FEW ids, spread over the days before now. */
function spreadIds(): string[] {
  idsMade += 1;
  return Array.from({ length: FEW }, (_, n) => firstIdAt(Date.now() - (FEW - n) * 1_000_000 + idsMade));
}
let idsMade = 0;
