/*
 * The plan of a page of users is stored beside their list (broadcast_users.plan): for each channel which
 * users are skipped, and when the others are due. Together with the rows of `deliveries`, which exist from
 * the first outcome on, it gives the state of every notification on every channel. A thousand users take some
 * hundred bytes, and none if there is only the inbox.
 */

/** The plan of a page of users on one channel. */
export interface ChannelPlan {
  readonly channel: string;
  /** When it is due, in unix milliseconds; undefined if no job delivers it, as in the inbox at once. */
  readonly dueAtMs: number | undefined;
  /** Why the user at a place of the page, from 0, is skipped; undefined if the user gets it. */
  skippedAt(place: number): string | undefined;
}

/** The same as it is stored. */
export interface StoredChannelPlan {
  channel: string;
  due?: number;
  /** By reason: all users, or those whose bits are set, from the lowest bit of the first byte, in base64. */
  skipped?: Record<string, true | string>;
}

/** The plan of a channel for these users, of whom some, in their order, are skipped. */
export function channelPlan(
  channel: string,
  userIds: readonly string[],
  skipped: ReadonlyMap<string, readonly string[]>,
  dueAtMs: number | undefined,
): StoredChannelPlan {
  return {
    channel,
    ...(dueAtMs === undefined ? {} : { due: dueAtMs }),
    ...(skipped.size === 0
      ? {}
      : {
          skipped: Object.fromEntries([...skipped].map(([reason, some]) => [reason, bitsOf(some, userIds)])),
        }),
  };
}

/** A page's plan as it is stored; null if it is the inbox alone, at once, for all. */
export function planJson(plan: readonly StoredChannelPlan[]): string | null {
  const [first, ...more] = plan;
  const plain = more.length === 0 && (first === undefined || Object.keys(first).length === 1);
  return plain ? null : JSON.stringify(plan);
}

/** Reads a stored plan. */
export function readPlan(json: string | null): ChannelPlan[] {
  const stored = json === null ? [{ channel: 'in_app' }] : (JSON.parse(json) as StoredChannelPlan[]);
  return stored.map(({ channel, due, skipped = {} }) => {
    const reasons = Object.entries(skipped).map(
      ([reason, some]) => [reason, some === true ? true : Buffer.from(some, 'base64')] as const,
    );
    return {
      channel,
      dueAtMs: due,
      skippedAt: (place) => reasons.find(([, some]) => some === true || isSet(some, place))?.[0],
    };
  });
}

function bitsOf(some: readonly string[], all: readonly string[]): true | string {
  if (some.length === all.length) return true;
  const bits = Buffer.alloc((all.length + 7) >> 3);
  let next = 0;
  for (let place = 0; next < some.length && place < all.length; place += 1) {
    if (all[place] !== some[next]) continue;
    bits[place >> 3] = (bits[place >> 3] ?? 0) | (1 << (place & 7));
    next += 1;
  }
  return bits.toString('base64');
}

function isSet(bits: Buffer, place: number): boolean {
  return (((bits[place >> 3] ?? 0) >> (place & 7)) & 1) === 1;
}
