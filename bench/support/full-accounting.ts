import { addressHash } from '../../server/src/domain/ground/identities/address.ts';
import { AddressKeys } from '../../server/src/domain/ground/suppressions/address-keys.ts';
import { planJson } from '../../server/src/domain/line/ledger/page-plan.ts';
import { createLogger } from '../../server/src/lib/log.ts';
import { packJson } from '../../server/src/lib/packed-json.ts';
import { BROADCASTS, FEW, type Fill, inSteps, MANY } from './fill.ts';
import { ID_OF, NOTIFICATION_OF } from './large-table.ts';

/** The broadcast to a million users, and places in it. */
export interface FullDeliveries {
  broadcast: string;
  /** A cursor in the middle of its deliveries. */
  middle: string;
  /** One of its notifications, and one of a small broadcast. */
  notification: string;
  smallNotification: string;
}

const PAGE = 1_000;
// The youngest.
const LARGE = BROADCASTS + 1;

/**
 * A broadcast to a million users, in their inboxes and by e-mail; no user can be reached by SMS. One e-mail
 * in a thousand failed, one in five thousand is retried, and the last thousand have no outcome yet. The other
 * broadcasts list their users, only in the inbox.
 */
export async function fillDeliveries(fill: Fill): Promise<FullDeliveries> {
  const { client, belfry } = fill;
  const dueAtMs = Date.now() - 3_600_000;
  const plan = planJson([
    { channel: 'in_app' },
    { channel: 'email', due: dueAtMs },
    { channel: 'sms', skipped: { unreachable: true } },
  ]);
  const message = packJson(JSON.stringify({ title: 'We are open', content: 'All week.' }));
  const recipients = packJson(JSON.stringify([{ external_id: 'user-20000' }]));
  await client.query(
    `insert into broadcasts
      (id, project_id, category, message, recipients, status, total, pending, awaited, failed_users)
    values (${ID_OF(String(LARGE))}, $1, 'openings', $2, $3, 'processing', ${MANY}, 1200, 1000, 999)`,
    [belfry.projectId, message, recipients],
  );
  await inSteps(
    fill,
    MANY,
    (numbers) => `insert into broadcast_users (broadcast_id, page, user_ids, plan)
    select ${ID_OF(String(LARGE))}, (n - 1) / ${PAGE}, array_agg(${ID_OF('n')} order by n), $1::json
    from ${numbers} as n
    group by (n - 1) / ${PAGE}`,
    [plan],
  );
  await inSteps(
    fill,
    MANY - PAGE,
    (numbers) => `insert into deliveries
      (user_id, notification_id, channel, broadcast_id, state, attempts, provider, provider_id, code, reason,
        first_attempt_at, last_attempt_at)
    select ${ID_OF('n')}, ${NOTIFICATION_OF(String(LARGE), 'n')}, 'email', ${ID_OF(String(LARGE))},
      case when n % 1000 = 7 then 'failed' when n % 5000 = 11 then 'retrying' else 'sent' end,
      1, 'smtp', 'accepted-' || n,
      case when n % 1000 = 7 then '550' end, case when n % 1000 = 7 then 'no such mailbox' end, now(), now()
    from ${numbers} as n`,
    [],
  );
  await client.query(
    `insert into broadcast_users (broadcast_id, page, user_ids)
    select broadcast_id, 0, array_agg(user_id order by user_id)
    from notifications
    group by broadcast_id`,
  );
  return read(fill);
}

async function read({ client }: Fill): Promise<FullDeliveries> {
  const { rows } = await client.query<FullDeliveries>(
    `select ${ID_OF(String(LARGE))}::text as broadcast,
      ${MANY / PAGE / 2} || '-' || ${ID_OF(String(MANY / 2 + PAGE / 2))} || '.email' as middle,
      ${NOTIFICATION_OF(String(LARGE), String(MANY / 2))}::text as notification,
      (select id::text from notifications where broadcast_id = ${ID_OF(String(BROADCASTS - 1))} limit 1)
        as "smallNotification"`,
  );
  const [known] = rows;
  if (known === undefined) throw new Error('nothing was filled');
  return known;
}

/** A million addresses, some with each reason; the first thousand can be found by their address. */
export async function fillSuppressions(fill: Fill): Promise<void> {
  const { belfry, sealer } = fill;
  const { projectId } = belfry;
  const addressKeys = new AddressKeys({ sealer, log: createLogger({ level: 'error' }) });
  const keys = await belfry.db.transaction((tx) => addressKeys.findOrCreate(tx, [projectId]));
  const key = keys.get(projectId);
  if (key === undefined) throw new Error('no key for addresses');
  const hashes = Array.from({ length: FEW }, (_, index) =>
    addressHash(key, { kind: 'email', address: `person${index + 1}@example.com` }),
  );
  await inSteps(
    fill,
    MANY,
    (numbers) => `insert into suppressions
      (project_id, id, kind, hash, address, reason, provider, detail, user_ids, created_at, updated_at)
    select $1, ${ID_OF('n')}, case when n > ${FEW} and n % 4 = 0 then 'phone' else 'email' end,
      coalesce(($2::bytea[])[n], sha256(int4send(n))),
      case when n > ${FEW} and n % 4 = 0 then '+4930' || n else 'person' || n || '@example.com' end,
      (array['bounced', 'rejected', 'bounced', 'unsubscribed', 'complained', 'bounced', 'bounced'])
        [n % 7 + 1],
      'ses', '550 5.1.1 user unknown', array[${ID_OF('n')}], now(), now()
    from ${numbers} as n`,
    [projectId, hashes],
  );
}

/** Delivery windows of every user, and of the project. */
export async function fillWindows(fill: Fill): Promise<void> {
  const { client, belfry } = fill;
  const windows = (timeZone: string) =>
    JSON.stringify({
      time_zone: timeZone,
      channels: [{ channel: 'sms', windows: [{ from: '08:00', to: '21:00' }] }],
    });
  await client.query(
    'insert into project_delivery_windows (project_id, config, of_users) values ($1, $2, true)',
    [belfry.projectId, windows('Europe/Berlin')],
  );
  await inSteps(
    fill,
    MANY,
    (numbers) => `insert into user_delivery_windows (user_id, config)
    select ${ID_OF('n')}, $1 from ${numbers} as n`,
    [windows('America/New_York')],
  );
  await client.query('insert into user_delivery_windows (user_id, config) values ($1, $2)', [
    fill.heavyUser,
    windows('Asia/Tokyo'),
  ]);
}
