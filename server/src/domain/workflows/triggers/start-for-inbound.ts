import { isWorkflowKey } from '../../../contract/workflow.ts';
import type { Queryable } from '../../../db/client.ts';
import { type JobKind, priorityFor } from '../../../queue/jobs.ts';
import { publishChanges } from '../../people/users/resolve.ts';
import { nameOfInbound } from '../feed/arrived-event.ts';
import { findVersions, newRun, type StartContext, writeRuns } from '../runs/start.ts';

export type InboundContext = StartContext & { wake: (kind: JobKind) => void };

/**
 * Starts a run of the workflow whose key is the name of a vendor's event, in the caller's transaction. Does
 * nothing if there is none, or it is disabled. Returns what to call after the commit.
 */
export async function startForInbound(
  tx: Queryable,
  context: InboundContext,
  projectId: string,
  { provider, event, payload }: { provider: string; event: string; payload: Record<string, unknown> },
): Promise<() => void> {
  const key = nameOfInbound(provider, event);
  if (!isWorkflowKey(key)) return () => {};
  const run = newRun(projectId, key, payload);
  const { versionOf, refusalOf } = await findVersions(tx, [run]);
  if (refusalOf(run) !== undefined) return () => {};
  const { users } = await writeRuns(tx, context, [run], { versionOf, priority: priorityFor(1) });
  return () => {
    users?.remember();
    if (users !== undefined) publishChanges(context.bus, users);
    context.wake('run_workflow');
  };
}
