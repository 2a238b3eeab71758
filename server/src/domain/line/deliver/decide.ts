import { LRUCache } from 'lru-cache';
import {
  type Condition,
  type ConditionData,
  ConditionError,
  conditionBytes,
  evaluate,
  parseCondition,
} from '../../../lib/expression.ts';
import { takeTurns } from '../../../lib/take-turns.ts';
import type { ProjectCategories } from '../../setup/categories/cache.ts';
import { type Closed, closedUntil, mayAnyClose } from '../../setup/delivery-windows/closed-until.ts';
import { switchedOff } from '../../setup/preferences/switched-off.ts';
import type { LineContext } from '../context/context.ts';
import { loadConditionData } from '../routing/condition-data.ts';
import { routesOf, skipReason, skipReasonText } from '../routing/routes.ts';
import type { Batch, Decided, Delivery, Reason } from './delivery.ts';

/**
 * Decides which deliveries are made now. The category's config and the user's preferences may have changed
 * since the fan-out, which may be a year ago. Conditions and delivery windows count only when a delivery is
 * due.
 */
export async function decide(
  context: Pick<LineContext, 'db' | 'clock'>,
  { categories, deliveries }: Batch,
): Promise<Decided[]> {
  const skipped = await skippedByUser(context, categories, deliveries);
  const remaining = skipped.size === 0 ? deliveries : deliveries.filter((one) => !skipped.has(one));
  for (const [delivery, reason] of await skippedByCondition(context, categories, remaining))
    skipped.set(delivery, reason);
  const closed = await closedWindows(context, categories, remaining);
  return deliveries.map((delivery): Decided => {
    const reason = skipped.get(delivery);
    if (reason !== undefined) return { delivery, kind: 'skip', ...reason };
    const until = closed.get(delivery);
    return until === undefined ? { delivery, kind: 'deliver' } : { delivery, kind: 'defer', closed: until };
  });
}

/** The deliveries that a cancellation, the category's config, a preference or a deleted user rules out. */
async function skippedByUser(
  { db }: Pick<LineContext, 'db'>,
  { configured, mayBeOff }: ProjectCategories,
  deliveries: readonly Delivery[],
): Promise<Map<Delivery, Reason>> {
  const off = await switchedOff(
    db,
    deliveries
      .filter(({ broadcast, channel }) => mayBeOff(broadcast.category, channel))
      .map(({ broadcast, userId }) => ({ category: broadcast.category, userIds: [userId] })),
  );
  const skipped = new Map<Delivery, Reason>();
  for (const delivery of deliveries) {
    const { broadcast, channel, user, userId } = delivery;
    const [route] = routesOf(configured.get(broadcast.category ?? ''), [channel]);
    // Whether the user can be reached is decided by the next step.
    const isOff = off(broadcast.category, userId).has(channel);
    const skip = route && skipReason(route, { reachable: true, switchedOff: isOff });
    if (broadcast.cancelled) skipped.set(delivery, CANCELLED);
    else if (user === undefined) skipped.set(delivery, USER_DELETED);
    else if (skip !== undefined) skipped.set(delivery, { code: skip, reason: skipReasonText(skip, channel) });
  }
  return skipped;
}

const CANCELLED: Reason = { code: 'cancelled', reason: skipReasonText('cancelled', '') };
const USER_DELETED: Reason = { code: 'user_deleted', reason: 'the user was deleted' };

/** The deliveries whose condition is false or cannot be evaluated. */
async function skippedByCondition(
  { db }: Pick<LineContext, 'db'>,
  { configured }: ProjectCategories,
  deliveries: readonly Delivery[],
): Promise<[Delivery, Reason][]> {
  const conditional = deliveries.flatMap((delivery) => {
    const { channels = [] } = configured.get(delivery.broadcast.category ?? '') ?? {};
    const { condition } = channels.find(({ channel }) => channel === delivery.channel) ?? {};
    return condition === undefined ? [] : [{ delivery, condition }];
  });
  if (conditional.length === 0) return [];
  const skipped: [Delivery, Reason][] = [];
  const dataOf = await loadConditionData(
    db,
    conditional.map(({ delivery }) => delivery),
  );
  // Evaluating a condition takes some microseconds, a hostile one milliseconds.
  const between = takeTurns();
  for (const { delivery, condition } of conditional) {
    const { broadcastId, userId } = delivery;
    const parsed = await parsedCondition(condition);
    const failure = failureOf(parsed, () => dataOf(broadcastId, userId));
    if (failure !== undefined) skipped.push([delivery, failure]);
    await between();
  }
  return skipped;
}

type ParsedCondition = Condition | { problem: string };
// A usual condition takes 20 kB, the longest 600.
const MAX_BYTES = 32_000_000;
const parsed = new LRUCache<string, Promise<ParsedCondition>>({
  maxSize: MAX_BYTES,
  sizeCalculation: (_condition, text) => 1 + conditionBytes(text),
});

/** Conditions were valid when their category was saved. */
function parsedCondition(text: string): Promise<ParsedCondition> {
  let parsing = parsed.get(text);
  if (parsing === undefined) {
    parsing = parseCondition(text);
    parsed.set(text, parsing);
    parsing.catch(() => parsed.delete(text));
  }
  return parsing;
}

function failureOf(condition: ParsedCondition, data: () => ConditionData): Reason | undefined {
  // Saved by a release that could parse it.
  if ('problem' in condition) return conditionFailed(condition.problem);
  try {
    if (evaluate(condition, data())) return undefined;
    return { code: 'condition_false', reason: `the condition is false: ${condition.text}` };
  } catch (error) {
    if (error instanceof ConditionError) return conditionFailed(error.message);
    throw error;
  }
}

function conditionFailed(problem: string): Reason {
  return { code: 'condition_failed', reason: `the condition cannot be evaluated: ${problem}` };
}

/** The deliveries outside the inbox that wait for their window or for the end of quiet hours. */
async function closedWindows(
  { db, clock }: Pick<LineContext, 'db' | 'clock'>,
  { configured, windows }: ProjectCategories,
  deliveries: readonly Delivery[],
): Promise<ReadonlyMap<Delivery, Closed>> {
  const closed = new Map<Delivery, Closed>();
  if (!mayAnyClose(windows, configured)) return closed;
  const timed = deliveries.flatMap((delivery) => {
    const { channel, userId, broadcast, user } = delivery;
    if (channel === 'in_app') return [];
    const category = configured.get(broadcast.category ?? '');
    return [{ delivery, userId, channel, category, customAttributes: user?.custom_attributes ?? null }];
  });
  const closedFor = await closedUntil(db, windows, timed, clock.now());
  for (const one of timed) {
    const until = closedFor(one);
    if (until !== undefined) closed.set(one.delivery, until);
  }
  return closed;
}
