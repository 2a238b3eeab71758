import { type Queryable, sql } from '../../../db/client.ts';
import { Batcher } from '../../../lib/batcher.ts';

/*
 * A text message costs money and cannot be recalled, so one is sent at most twice whatever happens. It is marked when its send starts: after
 * every wait for a permit, a connection or the circuit breaker. If it surely was not sent, the mark is removed with the outcome or the end
 * of the job. A message whose mark a crash leaves behind counts as sent.
 */

/** So many messages of a delivery may have been sent. */
export const MAX_UNSURE = 2;

/** A delivery by text message. */
export interface Marked {
  userId: string;
  notificationId: string;
  channel: string;
  /** As its job has it: one that was begun anew since is another's. */
  replay?: number | undefined;
}

/** A text message that is about to be sent. */
export interface TextMark extends Marked {
  broadcastId: string;
  /** Attempts before this one. */
  attempt: number;
  firstAttemptMs: number;
}

// More are marked by the next statement.
const MAX_GROUP = 200;

/** Marks text messages. Those that are about to be sent at the same time share a statement and a commit. */
export class TextMarker {
  readonly #batcher: Batcher<TextMark, number | undefined>;

  constructor({ db }: { db: Queryable }) {
    this.#batcher = new Batcher({
      run: (texts) => markGroup(db, texts),
      concurrency: 1,
      maxItems: MAX_GROUP,
    });
  }

  /**
   * Returns how many of the delivery may then have been sent, this one included; undefined if it must not be
   * sent.
   */
  mark(text: TextMark): Promise<number | undefined> {
    return this.#batcher.add(text);
  }
}

/**
 * A statement can touch a row once: two attempts at one delivery, of which one has lost its lease, are marked
 * one after the other.
 */
async function markGroup(db: Queryable, texts: readonly TextMark[]): Promise<(number | undefined)[]> {
  const marks = new Array<number | undefined>(texts.length);
  for (let left = [...texts.entries()]; left.length > 0; ) {
    const first = new Map(left.toReversed().map((entry) => [entry[1].notificationId, entry]));
    const group = [...first.values()];
    const marked = await markTexts(
      db,
      group.map(([, text]) => text),
    );
    for (const [index, { notificationId }] of group) marks[index] = marked.get(notificationId);
    left = left.filter((entry) => !group.includes(entry));
  }
  return marks;
}

/**
 * Writes down that these are about to be sent, by one statement. Answers by notification's id how many of a
 * delivery may then have been sent, this one included; who is missing must not be sent: it has ended, or was
 * sent often enough.
 */
export async function markTexts(
  db: Queryable,
  texts: readonly TextMark[],
): Promise<ReadonlyMap<string, number>> {
  if (texts.length === 0) return new Map();
  const rows = await db.query<{ notification_id: string; unsure: number }>(mark, [
    ...keysOf(texts),
    texts.map((text) => text.broadcastId),
    texts.map((text) => text.attempt),
    texts.map((text) => new Date(text.firstAttemptMs)),
    MAX_UNSURE,
  ]);
  return new Map(rows.map((row) => [row.notification_id, row.unsure]));
}

/** Takes marks back of what was not tried. */
export async function unmarkTexts(db: Queryable, texts: readonly Marked[]): Promise<void> {
  if (texts.length > 0) await db.query(unmark, keysOf(texts));
}

function keysOf(texts: readonly Marked[]): unknown[] {
  return [
    texts.map((text) => text.userId),
    texts.map((text) => text.notificationId),
    texts.map((text) => text.channel),
    texts.map((text) => text.replay ?? 0),
  ];
}

// Primary key, both; in its order, so that two who mark the same wait for each other and not in a circle.
const mark = sql(
  'mark_texts',
  `insert into deliveries as d (
    user_id, notification_id, channel, broadcast_id, state, attempts, first_attempt_at, last_attempt_at, unsure, replays
  )
  select user_id, notification_id, channel, broadcast_id, 'retrying', attempts, first_attempt_at, now(), 1, replay
  from unnest($1::uuid[], $2::uuid[], $3::text[], $4::int[], $5::uuid[], $6::int[], $7::timestamptz[])
    as m (user_id, notification_id, channel, replay, broadcast_id, attempts, first_attempt_at)
  order by user_id, notification_id, channel
  on conflict (user_id, notification_id, channel) do update
    set unsure = d.unsure + 1
    where d.state = 'retrying' and d.replays = excluded.replays and d.unsure < $8
  returning d.notification_id, d.unsure`,
);
// One that was never attempted leaves no trace, unless it is one that was begun anew.
const unmark = sql(
  'unmark_texts',
  `with wanted as (
    select * from unnest($1::uuid[], $2::uuid[], $3::text[], $4::int[]) as w (user_id, notification_id, channel, replay)
  ),
  removed as (
    delete from deliveries d
    using wanted
    where d.user_id = wanted.user_id and d.notification_id = wanted.notification_id and d.channel = wanted.channel
      and d.replays = wanted.replay
      and d.state = 'retrying' and d.attempts = 0 and d.unsure = 1 and d.replays = 0
  )
  update deliveries d
  set unsure = d.unsure - 1
  from wanted
  where d.user_id = wanted.user_id and d.notification_id = wanted.notification_id and d.channel = wanted.channel
    and d.replays = wanted.replay
    and d.state = 'retrying' and d.unsure > 0 and not (d.attempts = 0 and d.unsure = 1 and d.replays = 0)`,
);
