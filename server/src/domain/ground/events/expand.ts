import type { Event, EventType } from '../../../contract/event.ts';
import { readJson } from '../../../lib/exact-numbers.ts';
import { notificationId, timeOf } from '../../../lib/ids.ts';
import type { EventDetails } from './record.ts';
import { typesOfRow } from './stored-types.ts';

/** A row of events as it is read, with the columns of some of its events. */
export interface EventRow {
  id: string;
  /** The stored type. */
  type: string;
  /** How many events of each type the row contains. */
  size: number;
  /** The broadcast of all events. */
  broadcast_id: string | null;
  /** Or the broadcast of each event. Events with the same index in both types share it. */
  broadcast_ids: string[] | null;
  /** The user of each event; null if the events have none. */
  user_ids: string[] | null;
  details: string | null;
}

// The low 16 bits of an event's id are its number within the row.
const NUMBER_DIGITS = 4;

/** Returns the id of the event's row, and the event's number in it. */
export function splitEventId(id: string): { rowId: string; number: number } {
  return {
    rowId: `${id.slice(0, -NUMBER_DIGITS)}${'0'.repeat(NUMBER_DIGITS)}`,
    number: Number.parseInt(id.slice(-NUMBER_DIGITS), 16),
  };
}

/** Returns the id of event number `number` of a row. */
export function eventId(rowId: string, number: number): string {
  return rowId.slice(0, -NUMBER_DIGITS) + number.toString(16).padStart(NUMBER_DIGITS, '0');
}

/**
 * Returns the events of a row with the numbers `from` to `to - 1`. The columns `user_ids` and `broadcast_ids`
 * begin with event number `first`.
 */
export function expand(row: EventRow, from: number, to: number, first = from): Event[] {
  const details = row.details === null ? null : (readJson(row.details) as EventDetails | EventDetails[]);
  const timestamp = new Date(timeOf(row.id)).toISOString();
  const types = typesOfRow(row.type);
  const events: Event[] = [];
  for (let number = from; number < to; number += 1) {
    const place = number % row.size;
    const type = types[(number - place) / row.size] as EventType;
    const index = (number - first) % row.size;
    const broadcastId = row.broadcast_ids?.[index] ?? row.broadcast_id;
    // The details of a row with two types are those of the second.
    const own = type !== types.at(-1) ? undefined : Array.isArray(details) ? details[place] : details;
    const subject = subjectOf(type, broadcastId, row.user_ids?.[index], own?.context);
    events.push(addDetails({ id: eventId(row.id, number), type, timestamp }, own ?? {}, subject));
  }
  return events;
}

function addDetails(
  event: Event,
  { code, level, log, context, payload }: EventDetails,
  subject: Record<string, unknown>,
): Event {
  // Published clients read `code` as a number. The vendor's own code may be any word and goes into `context`.
  const status = code === undefined ? null : /^\d{3}(?!\d)/.exec(code);
  if (status !== null) event.code = Number(status[0]);
  if (level !== undefined) event.level = level;
  if (log !== undefined) event.log = log;
  Object.assign(subject, context);
  if (code !== undefined) subject.code = code;
  if (Object.keys(subject).length > 0) event.context = subject;
  if (payload !== undefined) event.payload = payload;
  return event;
}

/** Returns the ids that an event is about, which follow from its row. */
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
