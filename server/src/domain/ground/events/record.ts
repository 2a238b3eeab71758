import type { EventType } from '../../../contract/event.ts';
import { textArray, uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { chunksOf } from '../../../lib/chunks.ts';
import { writeJson } from '../../../lib/exact-numbers.ts';
import { newId } from '../../../lib/ids.ts';

/** The part of an event that does not follow from its row. Never contains a secret, a token or a config. */
export interface EventDetails {
  code?: string | undefined;
  level?: 'info' | 'warn' | 'error';
  log?: string | undefined;
  context?: Readonly<Record<string, unknown>>;
  payload?: Readonly<Record<string, unknown>>;
}

/** The most users for whom one row has the same event. */
export const USERS_PER_EVENT_ROW = 1_000;

/** An event or, with `userIds`, the same event for each of these users. */
export interface NewEvent {
  projectId: string;
  type: EventType;
  /** The id of the only row, made before: the event is listed before others that are recorded first. */
  rowId?: string;
  broadcastId?: string;
  userIds?: readonly string[];
  /** Shared by all users, or one for each of `userIds`. */
  details?: EventDetails | readonly EventDetails[] | undefined;
}

/** Writes events in the caller's transaction, so that they are committed with the change. */
export async function recordEvents(tx: Queryable, given: readonly NewEvent[]): Promise<void> {
  if (given.length > 0) await tx.query(insertEvents, eventColumns(given));
}

/** The values of a statement with `insertEventsText`. */
export function eventColumns(given: readonly NewEvent[]): unknown[] {
  const events = given.flatMap(inRows);
  return [
    uuidArray(events.map((event) => event.projectId)),
    uuidArray(events.map(({ rowId }) => rowId ?? newEventId())),
    textArray(events.map((event) => event.type)),
    textArray(events.map((event) => event.broadcastId)),
    textArray(events.map((event) => event.userIds && uuidArray(event.userIds))),
    textArray(events.map((event) => event.details && detailsJson(event.details))),
  ];
}

// Only the payload of a single event has numbers of other systems.
function detailsJson(details: NonNullable<NewEvent['details']>): string {
  return isForEach(details) ? JSON.stringify(details) : writeJson(details);
}

/** Splits an event of more users than a row may have. */
function inRows(event: NewEvent): NewEvent[] {
  const { userIds, details } = event;
  if (userIds === undefined || userIds.length <= USERS_PER_EVENT_ROW) return [event];
  const ofUsers = isForEach(details) ? chunksOf(details, USERS_PER_EVENT_ROW) : undefined;
  return chunksOf(userIds, USERS_PER_EVENT_ROW).map((chunk, index) => ({
    ...event,
    userIds: chunk,
    details: ofUsers?.[index] ?? details,
  }));
}

function isForEach(details: NewEvent['details']): details is readonly EventDetails[] {
  return Array.isArray(details);
}

/**
 * Inserts events, alone or as a part of another statement. `first` is the number of the first of its six
 * parameters.
 */
export function insertEventsText(first: number): string {
  const $ = (offset: number) => `$${first + offset}`;
  // unnest needs arrays of equal length, so each list of users is passed as the text of an array.
  return `insert into events (project_id, id, type, broadcast_id, user_ids, details)
  select project_id, id, type, broadcast_id, user_ids::uuid[], details::json
  from unnest(${$(0)}::uuid[], ${$(1)}::uuid[], ${$(2)}::text[], ${$(3)}::uuid[], ${$(4)}::text[],
    ${$(5)}::text[]) as e (project_id, id, type, broadcast_id, user_ids, details)`;
}

const insertEvents = sql('insert_events', insertEventsText(1));

/** Returns a row id: its low 16 bits are zero, because they number the events of the row. */
export function newEventId(): string {
  return `${newId().slice(0, -4)}0000`;
}
