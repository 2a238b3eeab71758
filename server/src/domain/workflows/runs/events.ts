import type { EventType } from '../../../contract/event.ts';
import type { Queryable } from '../../../db/client.ts';
import { type EventDetails, type NewEvent, newEventId, recordEvents } from '../../ground/events/record.ts';

/** An event of a run. */
export interface NewRunEvent extends Omit<EventDetails, 'context'> {
  projectId: string;
  runId: string;
  key: string;
  userId: string | null | undefined;
  type: Extract<EventType, `workflow.run.${string}`>;
}

// A row is read whole when one of its events is.
const MAX_EVENTS_OF_ROW = 100;

/** Writes events of runs in the caller's transaction. */
export async function recordRunEvents(tx: Queryable, events: readonly NewRunEvent[]): Promise<void> {
  await recordEvents(tx, runEvents(events));
}

/** Events of runs that start. They are listed before all that is recorded after this call. */
export function startedEvents(runs: readonly Omit<NewRunEvent, 'type'>[]): NewEvent[] {
  const rows = runEvents(runs.map((run) => ({ ...run, type: 'workflow.run.started' })));
  return rows.map((row) => ({ ...row, rowId: newEventId() }));
}

interface Row {
  projectId: string;
  type: NewRunEvent['type'];
  userIds: string[];
  details: EventDetails[];
}

/**
 * Returns events of runs as they are recorded. Those of one type and project share rows, in their order: each
 * row is three entries in the largest indexes. Only events with a user can share one.
 */
export function runEvents(events: readonly NewRunEvent[]): NewEvent[] {
  const rows: Row[] = [];
  const open = new Map<string, Row>();
  for (const { projectId, runId, key, userId, type, ...own } of events) {
    const details = { ...own, context: { run_id: runId, workflow_key: key } };
    const name = `${projectId} ${type}`;
    let row = open.get(name);
    if (row === undefined || row.userIds.length === MAX_EVENTS_OF_ROW || !userId) {
      row = { projectId, type, userIds: [], details: [] };
      rows.push(row);
      if (userId) open.set(name, row);
    }
    if (userId) row.userIds.push(userId);
    row.details.push(details);
  }
  return rows.map(({ userIds, details: [first, ...others], ...row }) => ({
    ...row,
    ...(userIds.length === 0 ? {} : { userIds }),
    ...(first === undefined ? {} : { details: others.length === 0 ? first : [first, ...others] }),
  }));
}
