import { MAX_WAIT_SECONDS } from '../../../contract/workflow.ts';
import { isOfOneItem } from '../../../db/client.ts';
import { Batcher } from '../../../lib/batcher.ts';
import { memberOf } from '../../../lib/members.ts';
import { type Closed, closedUntil, type TimedMessage } from '../../setup/delivery-windows/closed-until.ts';
import type { Command, StepCall, StepResult, WorkflowContext } from './command.ts';

interface Input {
  duration?: number;
  until?: string;
  delivery_window?: { channel: string; category?: string | null };
}

/** Waits for a time. */
export const wait: Command<Input> = {
  problems: untilProblems,
  begin(context, call) {
    const { duration, until, delivery_window: deliveryWindow } = call.input;
    if (deliveryWindow !== undefined) return untilOpen(context, call, deliveryWindow);
    const nowMs = context.clock.now();
    const problems = untilProblems(call.input, nowMs);
    if (problems.length > 0) return { kind: 'fail', error: problems.join('; ') };
    const untilMs = until === undefined ? nowMs + (duration ?? 0) * 1_000 : Date.parse(until);
    return untilMs <= nowMs ? { kind: 'done' } : { kind: 'wait', untilMs };
  },
};

function untilProblems(input: unknown, nowMs: number): string[] {
  const until = memberOf(input, 'until');
  return typeof until === 'string' && Date.parse(until) > nowMs + MAX_WAIT_SECONDS * 1_000
    ? ["Param 'until' must be within the next 400 days"]
    : [];
}

async function untilOpen(
  context: WorkflowContext,
  { projectId, user }: StepCall<Input>,
  { channel, category }: NonNullable<Input['delivery_window']>,
): Promise<StepResult> {
  if (user === null) return { kind: 'fail', error: 'the run has no user' };
  const { configured } = await context.categories.of(projectId);
  const closed = await batcherOf(context).add({
    projectId,
    userId: user.id,
    channel,
    category: configured.get(category ?? ''),
    customAttributes: JSON.stringify(memberOf(user, 'custom_attributes') ?? null),
  });
  return closed === undefined ? { kind: 'done' } : { kind: 'wait', untilMs: closed.untilMs };
}

type Openings = Batcher<TimedMessage & { projectId: string }, Closed | undefined>;

// The runs of a batch begin their steps at the same time.
const batchers = new WeakMap<WorkflowContext['db'], Openings>();

/** Looks up the windows of many users with a statement for each project. */
function batcherOf({ db, clock, categories }: WorkflowContext): Openings {
  let batcher = batchers.get(db);
  if (batcher === undefined) {
    batcher = new Batcher({
      concurrency: 1,
      maxItems: 1_000,
      splitAfter: isOfOneItem,
      async run(items) {
        const byProject = new Map<string, Awaited<ReturnType<typeof closedUntil>>>();
        for (const [projectId, ofProject] of Map.groupBy(items, (item) => item.projectId)) {
          const { windows } = await categories.of(projectId);
          byProject.set(projectId, await closedUntil(db, windows, ofProject, clock.now()));
        }
        return items.map((item) => byProject.get(item.projectId)?.(item));
      },
    });
    batchers.set(db, batcher);
  }
  return batcher;
}
