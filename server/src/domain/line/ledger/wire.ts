import type { DeliveryRecord, DeliveryStatus, RECEIPTS } from '../../../contract/delivery.ts';
import { CLOSED_TEXTS } from '../../setup/delivery-windows/closed-until.ts';
import { type SkipReason, skipReasonText } from '../routing/routes.ts';
import type { Due } from './due-times.ts';
import type { ChannelPlan } from './page-plan.ts';

/** A stored delivery: the row exists from the first outcome on. */
export interface DeliveryRow {
  user_id: string;
  notification_id: string;
  channel: string;
  broadcast_id: string;
  state: 'retrying' | 'sent' | 'failed' | 'skipped';
  attempts: number;
  replays: number;
  integration_id: string | null;
  provider: string | null;
  provider_id: string | null;
  code: string | null;
  reason: string | null;
  /** JSON text, as the contract has it. */
  targets: string | null;
  first_attempt_at: Date;
  last_attempt_at: Date;
  receipt: (typeof RECEIPTS)[number] | null;
  receipt_at: Date | null;
  opened_at: Date | null;
  opens: number;
  clicked_at: Date | null;
  clicks: number;
}

export const COLUMNS =
  'user_id, notification_id, channel, broadcast_id, state, attempts, replays, integration_id, provider, ' +
  'provider_id, code, reason, targets, first_attempt_at, last_attempt_at, receipt, receipt_at, opened_at, ' +
  'opens, clicked_at, clicks';

/** A notification on a channel, by the plan of its broadcast. */
export interface Planned {
  broadcastId: string;
  userId: string;
  notificationId: string;
  plan: ChannelPlan;
  /** Its place in the page, from 0. */
  place: number;
}

/** When the inbox showed it, and the clicks on it there. */
export interface ShownRow {
  id: string;
  sent_at: Date;
  clicked_at: Date | null;
  clicks: number | null;
}

/** What is known of a planned delivery. */
export interface DeliveryFacts {
  row: DeliveryRow | undefined;
  /** The notification, if it is in the inbox and still stored. */
  shown: ShownRow | undefined;
  /** The next attempt of a deferred or retried delivery. */
  due: Due | undefined;
  /** The provider name of the inbox. */
  brand: string;
}

/** In the inbox at once: there is no job and no row, the notification is the delivery. */
export function isNotificationOnly({ plan, place }: Planned): boolean {
  return plan.channel === 'in_app' && plan.dueAtMs === undefined && plan.skippedAt(place) === undefined;
}

/** The state of a planned delivery. */
export function stateOf(planned: Planned, row: DeliveryRow | undefined): DeliveryStatus {
  if (row !== undefined) return row.state;
  if (planned.plan.skippedAt(planned.place) !== undefined) return 'skipped';
  return isNotificationOnly(planned) ? 'sent' : 'scheduled';
}

/** A planned delivery as clients see it, before its user is named (user-names.ts). */
export function plannedDelivery(planned: Planned, { row, shown, due, brand }: DeliveryFacts): DeliveryRecord {
  const clicked = { clicked_at: iso(shown?.clicked_at), clicks: shown?.clicks ?? 0 };
  if (row !== undefined) {
    const due_at = row.state === 'retrying' ? iso(due?.at) : null;
    return { ...storedDelivery(row), due_at, ...(shown === undefined ? {} : clicked) };
  }
  const { plan, place } = planned;
  const state = stateOf(planned, undefined);
  const skipped = plan.skippedAt(place) as SkipReason | undefined;
  const waits = state === 'scheduled' ? waitingFor(due) : undefined;
  const inbox = state === 'sent';
  const at = inbox ? iso(shown?.sent_at) : null;
  return {
    id: `${planned.notificationId}.${plan.channel}`,
    notification_id: planned.notificationId,
    broadcast_id: planned.broadcastId,
    user_id: planned.userId,
    user: null,
    channel: plan.channel as DeliveryRecord['channel'],
    state,
    code: skipped ?? waits?.code ?? null,
    reason: skipped ? skipReasonText(skipped, plan.channel) : (waits?.reason ?? null),
    provider: inbox ? brand : null,
    integration_id: null,
    provider_id: null,
    attempts: inbox ? 1 : 0,
    replays: 0,
    targets: null,
    due_at: state === 'scheduled' ? iso(due?.at ?? plannedTime(plan)) : null,
    first_attempt_at: at,
    last_attempt_at: at,
    receipt: null,
    receipt_at: null,
    opened_at: null,
    opens: 0,
    ...clicked,
  };
}

/** What a deferred delivery waits for. A pause of its integration is added later (explain-waiting.ts). */
function waitingFor(due: Due | undefined): { code: string; reason: string } | undefined {
  if (due?.closed) return { code: due.closed, reason: CLOSED_TEXTS[due.closed] };
  return due?.waits_for === 'rate' ? RATE_LIMITED : undefined;
}

const RATE_LIMITED = {
  code: 'rate_limited',
  reason: 'the rate limit of the integration or of its provider is reached',
};

function plannedTime({ dueAtMs }: ChannelPlan): Date | undefined {
  return dueAtMs === undefined ? undefined : new Date(dueAtMs);
}

/** A stored delivery as clients see it, before its user is named. */
export function storedDelivery(row: DeliveryRow): DeliveryRecord {
  return {
    id: `${row.notification_id}.${row.channel}`,
    notification_id: row.notification_id,
    broadcast_id: row.broadcast_id,
    user_id: row.user_id,
    user: null,
    channel: row.channel as DeliveryRecord['channel'],
    state: row.state,
    code: row.code,
    reason: row.reason,
    provider: row.provider,
    integration_id: row.integration_id,
    provider_id: row.provider_id,
    attempts: row.attempts,
    replays: row.replays,
    targets: row.targets === null ? null : (JSON.parse(row.targets) as DeliveryRecord['targets']),
    due_at: null,
    first_attempt_at: row.attempts === 0 ? null : iso(row.first_attempt_at),
    last_attempt_at: row.attempts === 0 && row.state === 'retrying' ? null : iso(row.last_attempt_at),
    receipt: row.receipt,
    receipt_at: iso(row.receipt_at),
    opened_at: iso(row.opened_at),
    opens: row.opens,
    clicked_at: iso(row.clicked_at),
    clicks: row.clicks,
  };
}

function iso(time: Date | null | undefined): string | null {
  return time?.toISOString() ?? null;
}
