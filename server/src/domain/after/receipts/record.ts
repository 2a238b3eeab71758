import { textArray, uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { notificationId } from '../../../lib/ids.ts';
import { oneLine } from '../../../lib/one-line.ts';
import { withoutAddress } from '../../../lib/without-address.ts';
import { RECEIPTS, type Receipt, type ReceiptKind } from '../../../providers/provider.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import { type EventDetails, type NewEvent, recordEvents } from '../../ground/events/record.ts';
import { readReference } from '../../ground/links/reference.ts';
import type { AddressKeys } from '../../ground/suppressions/address-keys.ts';
import { type NewSuppression, suppressAddresses } from '../../ground/suppressions/suppress.ts';
import { type Unsubscribed, unsubscribe } from './unsubscribe.ts';

/** The integration that sent the messages. */
export interface ReceiptSource {
  projectId: string;
  integrationId: string;
  provider: string;
  channel: string;
}

/**
 * Records a vendor's receipts in the caller's transaction: the receipts of all deliveries by one statement,
 * their events and suppressions. A receipt that adds nothing changes nothing. A receipt may precede the
 * outcome of the send, which leaves it unchanged.
 */
export async function recordReceipts(
  { tx, bus, addressKeys }: { tx: Queryable; bus: Bus; addressKeys: AddressKeys },
  source: ReceiptSource,
  receipts: readonly Receipt[],
): Promise<void> {
  const named = receipts.map((receipt) => ({ receipt, delivery: deliveryOf(receipt) }));
  const strongest = strongestOf(source.channel, named);
  const found = await write(tx, source, strongest);
  await recordEvents(tx, eventsOf(source, strongest, found));
  await suppressAddresses({ db: tx, addressKeys }, suppressionsOf(source, named, found));
  await unsubscribe({ db: tx, bus }, source, unsubscribedOf(named, found));
}

function unsubscribedOf(named: readonly Named[], found: ReadonlyMap<string, Found>): Unsubscribed[] {
  return named.flatMap(({ receipt: { kind, at }, delivery }) => {
    const known = delivery && found.get(delivery.notificationId);
    if (kind !== 'unsubscribed' || delivery === undefined || known === undefined) return [];
    return [{ userId: delivery.userId, category: known.category, at }];
  });
}

interface ReportedDelivery {
  broadcastId: string;
  userId: string;
  notificationId: string;
}

interface Named {
  receipt: Receipt;
  /** Undefined for a message that Belfry did not send. */
  delivery: ReportedDelivery | undefined;
}

function deliveryOf({ reference }: Receipt): ReportedDelivery | undefined {
  const referred = reference === undefined ? undefined : readReference(reference);
  return referred && { ...referred, notificationId: notificationId(referred.broadcastId, referred.userId) };
}

/**
 * Ranks the receipts of one delivery, the decisive one first. One device of a user is enough; of addresses,
 * the worst receipt counts.
 */
function ranksOf(channel: string): readonly ReceiptKind[] {
  return channel === 'mobile_push'
    ? ['delivered', ...RECEIPTS.filter((kind) => kind !== 'delivered')]
    : RECEIPTS;
}

type Strongest = { delivery: ReportedDelivery; receipt: Receipt };

/**
 * Returns one receipt per delivery, because a statement can update a row only once. Sorts them as outcomes
 * are written, to avoid deadlocks.
 */
function strongestOf(channel: string, named: readonly Named[]): Strongest[] {
  const ranks: readonly string[] = [...ranksOf(channel), 'unsubscribed'];
  const chosen = new Map<string, Strongest>();
  for (const { receipt, delivery } of named) {
    if (delivery === undefined) continue;
    const before = chosen.get(delivery.notificationId);
    if (before === undefined || ranks.indexOf(receipt.kind) < ranks.indexOf(before.receipt.kind))
      chosen.set(delivery.notificationId, { delivery, receipt });
  }
  return [...chosen.values()].sort((a, b) => (a.delivery.userId < b.delivery.userId ? -1 : 1));
}

interface Found {
  notification_id: string;
  category: string | null;
  /** The report is new. */
  news: boolean;
}

/** Writes the receipts. Returns the deliveries of the project. */
async function write(
  tx: Queryable,
  { projectId, integrationId, provider, channel }: ReceiptSource,
  strongest: readonly Strongest[],
): Promise<Map<string, Found>> {
  if (strongest.length === 0) return new Map();
  const rows = await tx.query<Found>(writeReceipts, [
    uuidArray(strongest.map(({ delivery }) => delivery.userId)),
    uuidArray(strongest.map(({ delivery }) => delivery.notificationId)),
    uuidArray(strongest.map(({ delivery }) => delivery.broadcastId)),
    textArray(strongest.map(({ receipt: { kind } }) => (kind === 'unsubscribed' ? null : kind))),
    strongest.map(({ receipt }) => receipt.at),
    projectId,
    channel,
    integrationId,
    provider,
    ranksOf(channel),
  ]);
  return new Map(rows.map((row) => [row.notification_id, row]));
}

const EVENT_TYPES = {
  complained: 'delivery.complained',
  bounced: 'delivery.bounced',
  dropped: 'delivery.dropped',
  delivered: 'delivery.delivered',
} as const;

function eventsOf(
  { projectId, provider, channel }: ReceiptSource,
  strongest: readonly Strongest[],
  found: ReadonlyMap<string, Found>,
): NewEvent[] {
  const news = strongest.filter(({ delivery }) => found.get(delivery.notificationId)?.news);
  const groups = Map.groupBy(news, ({ delivery, receipt }) => `${delivery.broadcastId}${receipt.kind}`);
  return [...groups.values()].flatMap((group) => {
    const [first] = group;
    if (first === undefined || first.receipt.kind === 'unsubscribed') return [];
    const type = EVENT_TYPES[first.receipt.kind];
    return {
      projectId,
      type,
      broadcastId: first.delivery.broadcastId,
      userIds: group.map(({ delivery }) => delivery.userId),
      details: group.map(({ receipt }) => detailsOf(receipt, { channel, provider })),
    };
  });
}

function detailsOf(receipt: Receipt, context: { channel: string; provider: string }): EventDetails {
  const { kind, code, reason } = receipt;
  return {
    ...(code === undefined ? {} : { code: oneLine(code, 100) }),
    ...(reason === undefined ? {} : { log: anonymous(receipt, reason) }),
    level: kind === 'delivered' ? 'info' : 'warn',
    context,
  };
}

const MAX_REASON_CHARACTERS = 500;

/**
 * Returns the reason without addresses, because events outlive users. A mail server may also name the address
 * of a forward. It checks each word once; a search for addresses takes long in hostile texts.
 */
function anonymous({ suppress }: Receipt, reason: string): string {
  const address = suppress !== undefined && isAddress(suppress.address) ? suppress.address : undefined;
  const said = withoutAddress(oneLine(reason, 4 * MAX_REASON_CHARACTERS), address);
  const redacted = said.replace(/[^\s<>"'(),;:[\]]+/g, (word) => (/.@./.test(word) ? '[address]' : word));
  return oneLine(redacted, MAX_REASON_CHARACTERS);
}

/** Ignores repeated reports, so that an address that was allowed again stays allowed. */
function suppressionsOf(
  { projectId, provider, channel }: ReceiptSource,
  named: readonly Named[],
  found: ReadonlyMap<string, Found>,
): NewSuppression[] {
  return named.flatMap(({ receipt, delivery }) => {
    const { suppress, reason } = receipt;
    const known = delivery && found.get(delivery.notificationId);
    if (suppress === undefined || known?.news === false || !isAddress(suppress.address)) return [];
    return [
      {
        projectId,
        kind: channel === 'sms' ? ('phone' as const) : ('email' as const),
        address: suppress.address,
        reason: suppress.reason,
        detail: reason === undefined ? null : anonymous(receipt, reason),
        provider,
        ...(delivery === undefined || known === undefined ? {} : { userId: delivery.userId }),
      },
    ];
  });
}

function isAddress(text: string): boolean {
  return text.length <= 320 && text.isWellFormed() && !text.includes('\0');
}

// Primary keys of broadcasts, notifications and deliveries, looked up one by one, because receipts are few.
// If the receipt precedes the outcome, this inserts the row, without an attempt. That is only possible while
// the broadcast has pending deliveries; afterwards, every delivery has a row.
const writeReceipts = sql(
  'record_receipts',
  `with given as (
    select *
    from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::timestamptz[])
      as g (user_id, notification_id, broadcast_id, receipt, receipt_at)
  ),
  known as (
    select g.*, b.category
    from given g
    cross join lateral (
      select category, pending from broadcasts where id = g.broadcast_id and project_id = $6 limit 1
    ) b
    left join lateral (
      select true as there from deliveries d
      where d.user_id = g.user_id and d.notification_id = g.notification_id and d.channel = $7
      limit 1
    ) begun on true
    left join lateral (
      select true as there from notifications n
      where n.user_id = g.user_id and n.id = g.notification_id
      limit 1
    ) notified on true
    where begun.there or (b.pending > 0 and notified.there)
  ),
  written as (
    insert into deliveries as d (
      user_id, notification_id, channel, broadcast_id, state, attempts, integration_id, provider,
      first_attempt_at, last_attempt_at, receipt, receipt_at
    )
    select user_id, notification_id, $7, broadcast_id, 'retrying', 0, $8, $9, now(), now(),
      receipt, receipt_at
    from known
    where receipt is not null
    order by user_id, notification_id
    on conflict (user_id, notification_id, channel) do update
    set receipt = excluded.receipt, receipt_at = excluded.receipt_at
    where d.receipt is null
      or array_position($10::text[], excluded.receipt) < array_position($10::text[], d.receipt)
    returning user_id, notification_id
  )
  select k.notification_id, k.category, w.user_id is not null as news
  from known k
  left join written w using (user_id, notification_id)`,
);
