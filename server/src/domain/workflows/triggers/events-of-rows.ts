import { uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { type EventRow, expand } from '../../ground/events/expand.ts';
import { type ArrivedEvent, arrivedEvents } from '../feed/arrived-event.ts';

/** Events of a row: those with the numbers `from` to `to - 1`. */
export interface RowPart {
  id: string;
  from: number;
  to: number;
}

/** Returns the events of rows of a project. */
export async function eventsOfRows(
  tx: Queryable,
  projectId: string,
  parts: readonly RowPart[],
): Promise<ArrivedEvent[]> {
  const rows = await tx.query<EventRow & { xact: string }>(selectEvents, [
    projectId,
    uuidArray(parts.map(({ id }) => id)),
  ]);
  const rowOf = new Map(rows.map((row) => [row.id, row]));
  return parts.flatMap(({ id, from, to }) => {
    const row = rowOf.get(id);
    return row === undefined
      ? []
      : expand(row, from, to, 0).flatMap((event) => arrivedEvents(event, row.xact));
  });
}

// Primary key (project_id, id).
const selectEvents = sql(
  'events_for_workflows',
  `select xact::text as xact, id, type, size, broadcast_id, broadcast_ids, user_ids, details
  from events
  where project_id = $1 and id = any ($2::uuid[])`,
);
