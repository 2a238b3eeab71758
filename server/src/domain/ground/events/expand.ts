import type { Event, EventType } from '../../../contract/event.ts';
import { notificationId, timeOf } from '../../../lib/ids.ts';
import type { EventDetails } from './record.ts';

/**
 * A row of events as it is read, one type of it: all events of that type, or those from number `first` on
 * that were asked for.
 */
export interface EventRow {
  id: string;
  type: EventType;
  /** The broadcast of all its events. */
  broadcast_id: string | null;
  /** Or that of each event that is meant. */
  broadcast_ids: string[] | null;
  /** The users of the events that are meant; null where the event is nobody's. */
  user_ids: string[] | null;
  details: string | null;
  first: number;
}

// The low 16 bits of an event's id are its number within the row.
const NUMBER_DIGITS = 4;

/** The id of the row that an event belongs to, and which of its events it is. */
export function splitEventId(id: string): { rowId: string; number: number } {
  return {
    rowId: `${id.slice(0, -NUMBER_DIGITS)}${'0'.repeat(NUMBER_DIGITS)}`,
    number: Number.parseInt(id.slice(-NUMBER_DIGITS), 16),
  };
}

/** The id of event number `number` of a row. */
export function eventId(rowId: string, number: number): string {
  return rowId.slice(0, -NUMBER_DIGITS) + number.toString(16).padStart(NUMBER_DIGITS, '0');
}

/** The events that a row stands for, in the order of their ids. */
export function expand(row: EventRow): Event[] {
  const details = row.details === null ? null : (JSON.parse(row.details) as EventDetails | EventDetails[]);
  const timestamp = new Date(timeOf(row.id)).toISOString();
  const length = Math.max(row.user_ids?.length ?? 0, row.broadcast_ids?.length ?? 0, 1);
  return Array.from({ length }, (_, index) => {
    const number = row.first + index;
    const broadcastId = row.broadcast_ids?.[index] ?? row.broadcast_id;
    const own = Array.isArray(details) ? details[number] : details;
    return {
      id: eventId(row.id, number),
      type: row.type,
      timestamp,
      ...toWire(own ?? {}, subjectOf(row.type, broadcastId, row.user_ids?.[index], own?.context)),
    };
  });
}

function toWire(
  { code, level, log, context, payload }: EventDetails,
  subject: Record<string, unknown>,
): Omit<Event, 'id' | 'type' | 'timestamp'> {
  // Published clients read `code` as a number; the vendor's own word for it goes where any word may stand.
  const status = /^\d{3}(?!\d)/.exec(code ?? '')?.[0];
  const all = { ...subject, ...context, ...(code === undefined ? {} : { code }) };
  return {
    ...(status === undefined ? {} : { code: Number(status) }),
    ...(level === undefined ? {} : { level }),
    ...(log === undefined ? {} : { log }),
    ...(Object.keys(all).length === 0 ? {} : { context: all }),
    ...(payload === undefined ? {} : { payload }),
  };
}

/** Whom and what an event concerns: what follows from the row is not stored with it. */
function subjectOf(
  type: EventType,
  broadcastId: string | null,
  userId: string | undefined,
  context: EventDetails['context'],
): Record<string, unknown> {
  const subject: Record<string, unknown> = {};
  if (broadcastId !== null) subject.broadcast_id = broadcastId;
  if (userId !== undefined) subject.user_id = userId;
  if (broadcastId === null || userId === undefined) return subject;
  if (!/^(notification|delivery)\./.test(type)) return subject;
  subject.notification_id = notificationId(broadcastId, userId);
  if (type.startsWith('delivery.')) subject.delivery_id = `${subject.notification_id}.${context?.channel}`;
  return subject;
}
