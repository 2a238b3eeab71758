import { isTracing, traced } from '../../../lib/tracing.ts';
import type { WorkflowContext } from '../steps/command.ts';
import { type Advanced, advance, type TakenBy } from './advance.ts';
import type { LoadedRun } from './load.ts';

/** Takes one turn of a run, as a part of the trace that started the run. */
export function takeTurn(
  context: WorkflowContext,
  run: LoadedRun,
  takenBy: TakenBy,
  traceparent: string | undefined,
): Promise<Advanced> {
  if (!isTracing()) return advance(context, run, takenBy);
  const attributes = {
    'belfry.project.id': run.project_id,
    'belfry.workflow.run.id': run.id,
    'belfry.workflow.run.turn': run.turn,
  };
  return traced('run workflow', { kind: 'consumer', parent: traceparent, attributes }, async (span) => {
    const advanced = await advance(context, run, takenBy);
    if (advanced.next.kind === 'fail') span?.fail('failed');
    return advanced;
  });
}
