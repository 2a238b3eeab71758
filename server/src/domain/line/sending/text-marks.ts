import { type Queryable, sql } from '../../../db/client.ts';
import { Batcher } from '../../../lib/batcher.ts';
import type { Rejection } from '../../../providers/provider.ts';

/*
 * A text message costs money and cannot be recalled, so one is sent at most twice whatever happens. It is
 * marked when its send starts: after every wait for a permit, a connection or the circuit breaker. If it
 * surely was not sent, the mark is removed with the outcome or the end of the job. A message whose mark a
 * crash leaves behind counts as sent.
 */

/** How many messages of a delivery may have been sent. */
export const MAX_MARKS = 2;

/** A delivery by text message. */
export interface TextRef {
  userId: string;
  notificationId: string;
  channel: string;
  /** From the job: a delivery that was replayed since then has other marks. */
  replay?: number | undefined;
}

/** A delivery by text message, with the columns of its row. */
export interface TextDelivery extends TextRef {
  broadcastId: string;
  /** Attempts before this one. */
  attempt: number;
  firstAttemptMs: number;
}

// More are marked by the next statement.
const MAX_GROUP = 200;

/** Marks text messages. Those whose sends start at the same time share a statement and a commit. */
export class TextMarker {
  readonly #batcher: Batcher<TextDelivery, number | undefined>;

  constructor({ db }: { db: Queryable }) {
    this.#batcher = new Batcher({
      run: (texts) => markGroup(db, texts),
      concurrency: 1,
      maxItems: MAX_GROUP,
    });
  }

  /**
   * Returns how many messages of the delivery may have been sent then, this one included; undefined if it
   * must not be sent.
   */
  mark(text: TextDelivery): Promise<number | undefined> {
    return this.#batcher.add(text);
  }
}

/**
 * One attempt at a delivery by text message. It is marked once: another number or integration follows only if
 * nothing was sent before.
 */
export class TextSend {
  readonly #marker: Pick<TextMarker, 'mark'>;
  readonly #text: TextDelivery;
  #marks: number | undefined;

  constructor(marker: Pick<TextMarker, 'mark'>, text: TextDelivery) {
    this.#marker = marker;
    this.#text = text;
  }

  /** Marks the message right before it is sent. Returns a rejection if it must not be sent. */
  async begin(): Promise<Rejection | undefined> {
    this.#marks ??= await this.#marker.mark(this.#text);
    return this.#marks === undefined ? NOT_A_THIRD_TIME : undefined;
  }

  get isMarked(): boolean {
    return this.#marks !== undefined;
  }

  /** Whether no further message of the delivery may be sent. */
  get isLast(): boolean {
    return (this.#marks ?? 0) >= MAX_MARKS;
  }
}

export const NOT_A_THIRD_TIME: Rejection = {
  kind: 'rejected',
  scope: 'message',
  code: 'ambiguous',
  reason: 'the text message may have been sent, and is not sent a third time',
};

/**
 * A statement can change a row once: two attempts at one delivery, of which one has lost its lease, are
 * marked one after the other.
 */
async function markGroup(db: Queryable, texts: readonly TextDelivery[]): Promise<(number | undefined)[]> {
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
 * Records that these are about to be sent, by one statement. Returns by notification's id how many messages
 * of a delivery may have been sent then, this one included. A delivery that is missing must not be sent: it
 * has ended, or was sent often enough.
 */
export async function markTexts(
  db: Queryable,
  texts: readonly TextDelivery[],
): Promise<ReadonlyMap<string, number>> {
  if (texts.length === 0) return new Map();
  const rows = await db.query<{ notification_id: string; marks: number }>(mark, [
    ...keysOf(texts),
    texts.map((text) => text.broadcastId),
    texts.map((text) => text.attempt),
    texts.map((text) => new Date(text.firstAttemptMs)),
  ]);
  return new Map(rows.map((row) => [row.notification_id, row.marks]));
}

/** Removes the marks of messages that were not sent. */
export async function removeMarks(db: Queryable, texts: readonly TextRef[]): Promise<void> {
  await db.query(remove, keysOf(texts));
}

function keysOf(texts: readonly TextRef[]): unknown[] {
  return [
    texts.map((text) => text.userId),
    texts.map((text) => text.notificationId),
    texts.map((text) => text.channel),
    texts.map((text) => text.replay ?? 0),
  ];
}

const MARKS = 'unsure'; // language-ignore: the column was released with this name

// Primary key, both statements. In its order, so that two workers that mark the same rows do not deadlock.
const mark = sql(
  'mark_texts',
  `insert into deliveries as d (
    user_id, notification_id, channel, broadcast_id, state, attempts, first_attempt_at, last_attempt_at,
    ${MARKS}, replays
  )
  select user_id, notification_id, channel, broadcast_id, 'retrying', attempts, first_attempt_at, now(),
    1, replay
  from unnest($1::uuid[], $2::uuid[], $3::text[], $4::int[], $5::uuid[], $6::int[], $7::timestamptz[])
    as m (user_id, notification_id, channel, replay, broadcast_id, attempts, first_attempt_at)
  order by user_id, notification_id, channel
  on conflict (user_id, notification_id, channel) do update
    set ${MARKS} = d.${MARKS} + 1
    where d.state = 'retrying' and d.replays = excluded.replays and d.${MARKS} < ${MAX_MARKS}
  returning d.notification_id, d.${MARKS} as marks`,
);
// The row of a delivery that was never attempted is deleted, unless the delivery was replayed.
const remove = sql(
  'remove_text_marks',
  `with marked as materialized (
    select d.user_id, d.notification_id, d.channel,
      d.attempts = 0 and d.${MARKS} = 1 and d.replays = 0 as is_new
    from (
      select *
      from unnest($1::uuid[], $2::uuid[], $3::text[], $4::int[])
        as w (user_id, notification_id, channel, replay)
      order by user_id, notification_id, channel
    ) w
    cross join lateral (
      select *
      from deliveries d
      where d.user_id = w.user_id and d.notification_id = w.notification_id and d.channel = w.channel
        and d.replays = w.replay and d.state = 'retrying' and d.${MARKS} > 0
      for update
    ) d
  ),
  removed as (
    delete from deliveries d
    using marked
    where d.user_id = marked.user_id and d.notification_id = marked.notification_id
      and d.channel = marked.channel and is_new
  )
  update deliveries d
  set ${MARKS} = d.${MARKS} - 1
  from marked
  where d.user_id = marked.user_id and d.notification_id = marked.notification_id
    and d.channel = marked.channel and not is_new`,
);
