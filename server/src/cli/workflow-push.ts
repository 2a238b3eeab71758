import { createTwoFilesPatch } from 'diff';
import { projectTarget, request, type ServerOptions, type Target } from './api.ts';
import { UsageError } from './command.ts';
import { confirmed } from './confirmed.ts';
import { colored, plain, print, printJson } from './output.ts';
import { type Definitions, projectDefinitions, readDefinitions } from './workflow-files.ts';

export interface PushOptions extends ServerOptions {
  dryRun?: boolean;
  yes?: boolean;
  prune?: boolean;
  json?: boolean;
}

/** `belfry workflow push`: saves the definitions of a folder, after it has shown what would change. */
export async function pushWorkflows(folder: string, options: PushOptions): Promise<void> {
  if (options.json && !options.dryRun && !options.yes)
    throw new UsageError('--json shows no changes to confirm: use --yes or --dry-run with it');
  const { definitions } = await readDefinitions(folder);
  const target = projectTarget(options);
  const plan = compare(definitions, await projectDefinitions(target));
  const deleted = options.prune ? plan.missing : [];
  if (!options.json) show(plan, options);
  const changes = plan.saved.length + deleted.length;
  const writes = !options.dryRun && changes > 0;
  if (writes && !options.yes && !(await confirmed('Write these changes to the project?'))) return;
  const versions = writes ? await write(target, plan.saved, deleted, options) : new Map<string, number>();
  if (!options.json) return;
  printJson({
    dry_run: options.dryRun === true,
    saved: plan.saved.map(({ key, before }) => ({
      key,
      change: before === undefined ? 'created' : 'changed',
      version: versions.get(key) ?? null,
    })),
    deleted,
    kept: options.prune ? [] : plan.missing,
    unchanged: plan.unchanged,
  });
}

/** Saves and deletes workflows. Returns the versions of those that it saved. */
async function write(
  target: Target,
  saved: Plan['saved'],
  deleted: readonly string[],
  { json = false }: PushOptions,
): Promise<Map<string, number>> {
  const versions = new Map<string, number>();
  for (const { key, text } of saved) {
    const version = await save(target, text);
    versions.set(key, version);
    if (!json) print(`saved ${key}: version ${version}`);
  }
  for (const key of deleted) {
    await request(target, `/workflows/${encodeURIComponent(key)}`, { method: 'DELETE' });
    if (!json) print(`deleted ${key}`);
  }
  return versions;
}

interface Plan {
  saved: { key: string; text: string; before: string | undefined }[];
  unchanged: number;
  /** The keys that are in the project and not in the folder. */
  missing: string[];
}

function compare(definitions: Definitions, project: Definitions): Plan {
  const saved = [...definitions].flatMap(([key, text]) => {
    const before = project.get(key);
    return before === text ? [] : [{ key, text, before }];
  });
  return {
    saved,
    unchanged: definitions.size - saved.length,
    missing: [...project.keys()].filter((key) => !definitions.has(key)),
  };
}

function show({ saved, unchanged, missing }: Plan, { prune }: PushOptions): void {
  for (const { key, text, before } of saved) {
    print(colored('bold', `${before === undefined ? 'create' : 'change'} ${key}`));
    if (before !== undefined) showDiff(before, text);
  }
  for (const key of missing)
    print(
      prune ? colored('red', `delete ${key}`) : `keep ${key}: it is not in the folder (--prune deletes it)`,
    );
  print(`${saved.length} to save, ${prune ? missing.length : 0} to delete, ${unchanged} unchanged`);
}

function showDiff(before: string, after: string): void {
  const patch = createTwoFilesPatch('project', 'folder', before, after, '', '', { context: 3 });
  for (const line of patch.trimEnd().split('\n').slice(1)) {
    const text = plain(line);
    if (line.startsWith('+')) print(colored('green', text));
    else print(line.startsWith('-') ? colored('red', text) : text);
  }
}

async function save(target: Target, body: string): Promise<number> {
  const headers = { 'content-type': 'application/json' };
  const response = await request(target, '/workflows', { method: 'PUT', headers, body });
  const { version } = (await response.json()) as { version: number };
  return version;
}
