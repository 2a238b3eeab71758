import { type EventType, isEventType } from '../../../contract/event.ts';
import { textArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { OLDEST } from '../../../lib/cursor.ts';
import { type FeedDatabase, feedHorizon } from '../../ground/events/feed.ts';
import { FeedLoop, type FeedLoopOptions } from '../../ground/events/feed-loop.ts';
import { numbersOf, typesOfRow } from '../../ground/events/stored-types.ts';
import { continueWaiting } from '../engine/continue-waiting.ts';
import type { ArrivedEvent } from '../feed/arrived-event.ts';
import { lockFeed } from '../feed/feed.ts';
import { inStartTransaction, type StartContext } from '../runs/start.ts';
import { eventsOfRows, type RowPart } from './events-of-rows.ts';
import { startTriggered } from './start-triggered.ts';

// Rows of events in one transaction, and events of those rows that are wanted.
const MAX_ROWS = 500;
const MAX_EVENTS = 1_000;
// If more runs of a project wait for events of a page, each event is looked up.
const MAX_WAITING_USERS = 1_000;
const PROJECTS_AT_ONCE = 100;
const INBOUND: EventType = 'integration.received';

type ReaderContext = StartContext & { db: FeedDatabase };

/**
 * Reads the events of projects whose workflows need them: continues the runs that wait for an event, and
 * starts the runs whose triggers accept it. A project has a position in its feed, which moves in the
 * transaction that changes the runs: each event has its effect once, whatever crashes. Other projects cost
 * nothing.
 */
export class EventReader {
  readonly #context: ReaderContext;
  readonly #onContinued: () => void;
  readonly #loop: FeedLoop;
  /** The project that was read last. If it fails, the next poll begins behind it, so the others go on. */
  #last = OLDEST;

  /** `onContinued` is called when jobs of runs were committed. */
  constructor(context: ReaderContext & FeedLoopOptions, onContinued: () => void) {
    this.#context = context;
    this.#onContinued = onContinued;
    this.#loop = new FeedLoop(context, {
      read: (isStopped) => this.#readAll(isStopped),
      failure: 'events could not be read for workflows; the next poll retries it',
    });
  }

  start(): void {
    this.#loop.start();
  }

  stop(): Promise<void> {
    return this.#loop.stop();
  }

  async #readAll(isStopped: () => boolean): Promise<void> {
    const { db } = this.#context;
    for (;;) {
      const values = [this.#last, PROJECTS_AT_ONCE, await feedHorizon(db)];
      const projects = await db.query<{ id: string }>(selectProjects, values);
      for (const { id } of projects) {
        if (isStopped()) return;
        this.#last = id;
        if ((await readEvents(this.#context, id)) > 0) this.#onContinued();
      }
      if (projects.length === 0) return;
    }
  }
}

/** Reads the next events of a project. Returns how many runs they continued, or left to jobs, or started. */
export async function readEvents(context: ReaderContext, projectId: string): Promise<number> {
  const horizon = await feedHorizon(context.db);
  return inStartTransaction(context, async (tx) => {
    await lockFeed(tx, projectId);
    const rows = await tx.query<FeedRow>(selectRows, [projectId, MAX_ROWS, horizon]);
    const types = await wantedOf(
      tx,
      projectId,
      rows.flatMap(({ type }) => typesOfRow(type)),
    );
    const { page, last } = firstPage(rows, types);
    if (last === undefined) return { users: undefined, result: 0 };
    await tx.query(moveFeed, [projectId, last.xact, last.id]);
    if (page.length === 0) {
      await tx.query(deleteUnneeded, [projectId]);
      return { users: undefined, result: 0 };
    }
    const events = await eventsOfRows(tx, projectId, page);
    const vendors = await wantedOf(
      tx,
      projectId,
      events.flatMap(({ name }) => (isEventType(name) ? [] : [name])),
    );
    const continues = new Set([...types.continues, ...vendors.continues]);
    const starts = new Set([...types.starts, ...vendors.starts]);
    const awaited = await ofWaitingUsers(tx, projectId, { events, names: continues });
    const nowMs = context.clock.now();
    const later = { names: [...continues], rows: page };
    const waited = await continueWaiting(tx, projectId, awaited, { nowMs, later });
    const starting = events.filter(({ name }) => starts.has(name));
    const { started, users } = await startTriggered(tx, context, projectId, starting);
    return { users, result: waited.continued + waited.later + started };
  });
}

/** The names of events that continue runs, and of those that start runs. */
interface Wanted {
  continues: ReadonlySet<string>;
  starts: ReadonlySet<string>;
}

async function wantedOf(tx: Queryable, projectId: string, names: readonly string[]): Promise<Wanted> {
  const distinct = [...new Set(names)];
  if (distinct.length === 0) return { continues: new Set(), starts: new Set() };
  const rows = await tx.query<{ name: string; continues: boolean; starts: boolean }>(selectWanted, [
    projectId,
    textArray(distinct),
  ]);
  return {
    continues: new Set(rows.flatMap(({ name, continues }) => (continues ? [name] : []))),
    starts: new Set(rows.flatMap(({ name, starts }) => (starts ? [name] : []))),
  };
}

interface FeedRow {
  xact: string;
  id: string;
  type: string;
  size: number;
}

/** Returns the rows with wanted events, until they are many, and the last row up to which all are read. */
function firstPage(
  rows: readonly FeedRow[],
  { continues, starts }: Wanted,
): { page: RowPart[]; last: FeedRow | undefined } {
  const types = [...continues, ...starts, INBOUND].filter(isEventType);
  const page: RowPart[] = [];
  let events = 0;
  for (const row of rows) {
    const { from, to } = numbersOf(row, types);
    if (to > from) page.push({ id: row.id, from, to });
    events += to - from;
    if (events >= MAX_EVENTS) return { page, last: row };
  }
  return { page, last: rows.at(-1) };
}

/** Returns the events with these names, without those of users for whom no run waits, if few runs wait. */
async function ofWaitingUsers(
  tx: Queryable,
  projectId: string,
  { events, names }: { events: readonly ArrivedEvent[]; names: ReadonlySet<string> },
): Promise<readonly ArrivedEvent[]> {
  const named = events.filter(({ name }) => names.has(name));
  if (named.length === 0) return named;
  const rows = await tx.query<{ user_id: string | null }>(selectWaitingUsers, [
    projectId,
    textArray([...names]),
    MAX_WAITING_USERS,
  ]);
  const users = new Set(rows.map(({ user_id: userId }) => userId));
  if (rows.length === MAX_WAITING_USERS || users.has(null)) return named;
  return named.filter(({ userId }) => userId === null || users.has(userId));
}

// Primary key of workflow_feeds; for each of its rows one of events_feed (project_id, xact, id).
const selectProjects = sql(
  'projects_with_events_for_workflows',
  `select f.project_id as id
  from workflow_feeds f
  where exists (
    select from events e
    where e.project_id = f.project_id and (e.xact, e.id) > (f.feed_xact, f.feed_id)
      and e.xact < $3::xid8
  )
  order by f.project_id <= $1, f.project_id
  limit $2`,
);
// Primary key of workflow_feeds; index events_feed (project_id, xact, id).
const selectRows = sql(
  'read_feed_for_workflows',
  `select e.xact, e.id, e.type, e.size
  from workflow_feeds f
  cross join lateral (
    select xact, id, type, size
    from events
    where project_id = $1 and (xact, id) > (f.feed_xact, f.feed_id)
      and xact < $3::xid8
    order by xact, id
    limit $2
  ) e
  where f.project_id = $1
  order by e.xact, e.id`,
);
// Index workflow_runs_waiting (project_id, waits_for, user_id), and workflow_triggers_of_event.
const selectWanted = sql(
  'events_that_workflows_want',
  `select name,
    exists (select from workflow_runs where project_id = $1 and waits_for = name) as continues,
    exists (select from workflow_triggers where project_id = $1 and event = name) as starts
  from unnest($2::text[]) as n (name)`,
);
// Index workflow_runs_waiting (project_id, waits_for, user_id).
const selectWaitingUsers = sql(
  'users_of_waiting_runs',
  `select user_id
  from workflow_runs
  where project_id = $1 and waits_for = any ($2::text[])
  limit $3`,
);
// Primary key.
const moveFeed = sql(
  'move_workflow_feed',
  'update workflow_feeds set feed_xact = $2, feed_id = $3 where project_id = $1',
);
// Primary key; indexes workflow_runs_waiting and workflow_triggers_pkey.
const deleteUnneeded = sql(
  'delete_workflow_feed',
  `delete from workflow_feeds
  where project_id = $1
    and not exists (select from workflow_triggers where project_id = $1)
    and not exists (select from workflow_runs where project_id = $1 and waits_for is not null)`,
);
