import { readConfig } from '../config.ts';
import { type LimitChange, limitProject } from '../domain/setup/projects/limit.ts';
import { CommandError } from './command.ts';
import { print, printJson, printMembers } from './output.ts';
import { withProject } from './with-cells.ts';
import { linked } from './with-context.ts';

/** `belfry project limits`: changes the rate limits of a project if requested, and shows them. */
export async function limitsCommand(
  project: string | undefined,
  { json, ...change }: LimitChange & { json?: boolean },
): Promise<void> {
  const { RATE_LIMIT_READS, RATE_LIMIT_WRITES } = readConfig();
  const { own, notified } = await withProject(project, async (context, { id }) => {
    const notified = Object.keys(change).length === 0 || (await linked(context));
    return { own: await limitProject(context, id, change), notified };
  });
  if (own === undefined) throw new CommandError('the project was deleted');
  const { reads = RATE_LIMIT_READS, writes = RATE_LIMIT_WRITES } = own;
  if (json) return printJson({ reads, writes, own });
  const shown = (limit: number, isOwn: boolean) =>
    `${limit === 0 ? 'no limit' : `${limit} per minute and credential`}${isOwn ? '' : ' (of the server)'}`;
  printMembers({
    reads: shown(reads, own.reads !== undefined),
    writes: shown(writes, own.writes !== undefined),
  });
  if (!notified) print('\nRunning servers apply it within seconds.');
}
