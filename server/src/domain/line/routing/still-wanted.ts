import { setImmediate as nextTurn } from 'node:timers/promises';
import { type Condition, ConditionError, evaluate } from '../../../lib/expression.ts';
import type { Job } from '../../../queue/jobs.ts';
import type { Category } from '../../setup/categories/of-project.ts';
import { switchedOff } from '../../setup/preferences/switched-off.ts';
import type { LineContext } from '../context/context.ts';
import { reasonInWords, routesOf, skipReason } from './choose-channels.ts';
import { type BroadcastTexts, loadConditionData } from './condition-data.ts';
import { conditionOf } from './conditions.ts';

/** Why a delivery is not wanted, or not any more: a word for programs, and a sentence. */
export interface Unwanted {
  code: string;
  reason: string;
}

// A condition takes some microseconds, a hostile one milliseconds: after so much of them others have their
// turn.
const LONGEST_TURN_MS = 10;

/**
 * Which of the jobs' deliveries are not wanted now, by `<notification>` as `nameOf` has it: the category's
 * config and the user's preference may have changed since the fan-out, which may be a year ago, and
 * conditions are judged only now, when the delivery is due.
 */
export async function unwantedNow(
  context: Pick<LineContext, 'db' | 'categories'>,
  jobs: readonly Job<'deliver'>[],
  broadcasts: ReadonlyMap<string, BroadcastTexts>,
): Promise<ReadonlyMap<string, Unwanted>> {
  const { configured, mayBeOff } = await context.categories.of(jobs[0]?.projectId ?? '');
  const unwanted = new Map<string, Unwanted>();
  const conditional: Conditional[] = [];
  const planned = jobs.flatMap(({ payload }) => {
    const broadcast = broadcasts.get(payload.broadcast_id);
    return broadcast === undefined
      ? []
      : [{ broadcast, channel: payload.channel, userIds: payload.user_ids }];
  });
  const off = await switchedOff(
    context.db,
    planned
      .filter(({ broadcast, channel }) => mayBeOff(broadcast.category, channel))
      .map(({ broadcast, userIds }) => ({ category: broadcast.category, userIds })),
  );
  for (const { broadcast, channel, userIds } of planned) {
    const { category: key } = broadcast;
    const category = key === null ? undefined : configured.get(key);
    const [route] = routesOf(category, [channel]);
    for (const userId of userIds) {
      // Whether the user can be reached is for the look-up of targets to find out.
      const switchedOff = off(key, userId).has(channel);
      const skip = route && skipReason(route, { reachable: true, switchedOff });
      if (skip !== undefined)
        unwanted.set(nameOf(broadcast.id, channel, userId), {
          code: skip,
          reason: reasonInWords(skip, channel),
        });
      else if (route?.conditional)
        conditional.push({ broadcast, channel, userId, text: conditionText(category, channel) });
    }
  }
  await judge(context, conditional, unwanted);
  return unwanted;
}

/** A delivery's name in what `unwantedNow` answers. */
export function nameOf(broadcastId: string, channel: string, userId: string): string {
  return `${broadcastId} ${channel} ${userId}`;
}

interface Conditional {
  broadcast: BroadcastTexts;
  channel: string;
  userId: string;
  text: string;
}

function conditionText(category: Category | undefined, channel: string): string {
  return category?.channels.find((one) => one.channel === channel)?.condition ?? 'true';
}

async function judge(
  { db }: Pick<LineContext, 'db'>,
  conditional: readonly Conditional[],
  unwanted: Map<string, Unwanted>,
): Promise<void> {
  if (conditional.length === 0) return;
  const dataOf = await loadConditionData(db, conditional);
  let turnBeganMs = performance.now();
  for (const { broadcast, channel, userId, text } of conditional) {
    const condition = await conditionOf(text);
    const failed = failedCondition(condition, () =>
      evaluate(condition as Condition, dataOf(broadcast.id, userId)),
    );
    if (failed !== undefined) unwanted.set(nameOf(broadcast.id, channel, userId), failed);
    if (performance.now() - turnBeganMs < LONGEST_TURN_MS) continue;
    await nextTurn();
    turnBeganMs = performance.now();
  }
}

function failedCondition(
  condition: Condition | { problem: string },
  holds: () => boolean,
): Unwanted | undefined {
  // Saved by a release that could read it.
  if ('problem' in condition) return failure(condition.problem);
  try {
    if (holds()) return undefined;
    return { code: 'condition_false', reason: `the condition does not hold: ${condition.text}` };
  } catch (error) {
    if (error instanceof ConditionError) return failure(error.message);
    throw error;
  }
}

function failure(problem: string): Unwanted {
  return { code: 'condition_failed', reason: `the condition cannot be judged: ${problem}` };
}
