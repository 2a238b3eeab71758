import { type Config, readConfig } from '../config.ts';
import { readCredentials } from '../credentials.ts';
import { assignToCell } from '../domain/setup/cells/directory.ts';
import { createProject } from '../domain/setup/projects/create.ts';
import { listProjects, type ProjectSummary } from '../domain/setup/projects/find.ts';
import { issueToken } from '../domain/setup/projects/tokens.ts';
import { CommandError } from './command.ts';
import { print, printJson, printMembers, printTable } from './output.ts';
import { nameProblem } from './parse.ts';
import { reportFailures, withCells } from './with-cells.ts';

/** `belfry project create`: prints the project's keys, once. */
export async function createProjectCommand(
  name: string,
  { cell, json }: { cell?: string; json?: boolean },
): Promise<void> {
  const problem = nameProblem(name);
  if (problem !== undefined) throw new CommandError(`a project's name has ${problem}`);
  const config = readConfig();
  const made = await withCells(async ({ main, named }) => {
    const { db, sealer, clock } = await named(cell ?? main.cell);
    // In one transaction, because an error would lose the keys of a project without its token.
    return db.transaction(async (tx) => {
      const project = await createProject({ db: tx, sealer }, name);
      if (project === undefined) return undefined;
      const token = await issueToken(
        { db: tx, sealer, clock },
        { projectId: project.id, name: 'project create' },
      );
      if (token === undefined) throw new Error(`the new project ${project.id} does not exist`);
      // Last, because a project that its cell does not have is only not found.
      if (cell !== undefined && cell !== main.cell) await assignToCell(main.db, { ...project, cell });
      return { ...project, token: token.token };
    });
  });
  if (made === undefined) throw new CommandError(`project ${name} already exists: choose another name`);
  const address = addressOf(config);
  const members = {
    project_id: made.id,
    name: made.name,
    api_key: made.apiKey,
    api_secret: made.apiSecret,
    project_jwt: made.token,
    base_url: `${address}/v2`,
    legacy_base_url: address,
  };
  if (json) return printJson(members);
  printMembers(members);
  print('\nKeep api_secret and project_jwt now: they are not shown again.');
}

/** `belfry project list`. */
export async function listProjectsCommand({ json }: { json?: boolean }): Promise<void> {
  const records = await withCells(async ({ all, names }) => {
    const { contexts, failures } = await all();
    reportFailures(failures);
    const ofCells = contexts.map(async (context) =>
      (await listProjects(context)).map((project) => toRecord(project, names.length > 0 && context.cell)),
    );
    return (await Promise.all(ofCells)).flat();
  });
  if (json) printJson(records);
  else printTable(records, 'There is no project yet: the first start of the server creates "default".');
}

function toRecord({ id, name, apiKey, createdAt }: ProjectSummary, cell: string | false) {
  return {
    project_id: id,
    name,
    api_key: apiKey,
    created_at: createdAt.toISOString(),
    ...(cell === false ? {} : { cell }),
  };
}

/** The address of the server with these settings; with PORT=0 that of its last start. */
function addressOf({ PUBLIC_URL, HOST, PORT, DATA_DIR }: Config): string {
  const last = readCredentials(DATA_DIR)?.legacy_base_url;
  if (PUBLIC_URL !== undefined) return PUBLIC_URL;
  if (last !== undefined) return last;
  const host = HOST === '0.0.0.0' || HOST === '::' ? '127.0.0.1' : HOST;
  return `http://${host.includes(':') ? `[${host}]` : host}:${PORT}`;
}
