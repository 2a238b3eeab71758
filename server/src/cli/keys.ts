import type { KeyKind } from '../domain/setup/projects/keys.ts';
import { listKeys, type ProjectKeyInfo } from '../domain/setup/projects/list-keys.ts';
import { removeKey } from '../domain/setup/projects/remove-key.ts';
import { rollKey } from '../domain/setup/projects/roll-key.ts';
import { CommandError } from './command.ts';
import { type Cell, print, printJson, printMembers, printTable } from './output.ts';
import type { ForProject } from './project-named.ts';
import { renewFile } from './renew-file.ts';
import { checkServers } from './reseal.ts';
import { withProject } from './with-cells.ts';
import { linked } from './with-context.ts';

/** The kinds of keys by their names on the command line. */
const KEY_KINDS: Readonly<Record<'api-secret' | 'signing-key', KeyKind>> = {
  'api-secret': 'api_secret',
  'signing-key': 'signing_key',
};

/** `belfry project keys list`. */
export async function listKeysCommand({ project, json }: ForProject): Promise<void> {
  const keys = await withProject(project, (context, { id }) => listKeys(context, id));
  if (json) return printJson(keys.map(toRecord));
  printTable(
    keys.map((key) => ({
      kind: key.kind.replace('_', ' '),
      id: key.id,
      state: STATES[key.state],
      created: key.createdAt.toISOString(),
      'valid until': key.validUntil?.toISOString() ?? '-',
      'last used': key.lastUsedAt?.toISOString() ?? 'never',
    })),
    'The project has no keys.',
  );
}

const STATES: Record<ProjectKeyInfo['state'], Cell> = {
  current: { text: 'current', format: 'green' },
  valid: { text: 'valid', format: 'yellow' },
  ended: { text: 'ended', format: 'dim' },
};

/** `belfry project keys roll`: creates a key. Former ones stay valid for the overlap. */
export async function rollKeyCommand(
  kindName: keyof typeof KEY_KINDS,
  { project, overlap: overlapMs, json }: ForProject & { overlap: number },
): Promise<void> {
  const kind = KEY_KINDS[kindName];
  const { rolled, name, notified, file } = await withProject(project, async (context, { id, name }) => {
    await checkServers(context);
    const notified = await linked(context);
    const rolled = await rollKey(context, { projectId: id, kind, overlapMs });
    if (rolled === undefined) throw new CommandError(`project ${name} was deleted`);
    return { rolled, name, notified, file: await renewFile(context, id, 'the key was rolled') };
  });
  const { apiSecret, formerValidUntil, tokensEnding } = rolled;
  const until = formerValidUntil.toISOString();
  const members = {
    ...(apiSecret === undefined ? { project_jwts_ending: tokensEnding } : { api_secret: apiSecret }),
    former_key_valid_until: until,
  };
  const { renewed, problem } = file;
  if (problem !== undefined) {
    console.error(`belfry: ${problem}`);
    process.exitCode = 1;
  }
  if (json) return printJson({ ...members, credentials_file_renewed: renewed });
  printMembers(members);
  const notes = apiSecret === undefined ? tokenNotes(tokensEnding, until) : SECRET_NOTES;
  print(`\nProject ${name} has a new ${kindName.replace('-', ' ')}.`);
  for (const note of notes) print(note);
  if (renewed) print('credentials.json has the new keys.');
  if (!notified) print('Running servers use it within seconds.');
}

const SECRET_NOTES = [
  'Keep api_secret now: it is not shown again. Put it on your servers before the former one ends.',
];

function tokenNotes(tokensEnding: number, until: string): string[] {
  if (tokensEnding === 0) return ['No Project JWT was signed with the former one.'];
  return [
    `${tokensEnding} Project JWT${tokensEnding === 1 ? '' : 's'} will end at ${until}.`,
    'Issue new ones with belfry token issue; belfry token list shows which end.',
  ];
}

/** `belfry project keys remove`: removes a former key that has ended. */
export async function removeKeyCommand(id: string, { project, json }: ForProject): Promise<void> {
  const removed = await withProject(project, async (context, { id: projectId }) => {
    await linked(context);
    return removeKey(context, projectId, id);
  });
  if (removed === 'unknown')
    throw new CommandError(`the project has no former key ${id}: see belfry project keys list`);
  if (removed === 'valid')
    throw new CommandError(
      `key ${id} is still valid: end it first, with belfry project keys roll --overlap 0`,
    );
  if (json) printJson({ id, removed: true });
  else print(`Key ${id} was removed. Links that it signed no longer work.`);
}

function toRecord({ id, kind, state, createdAt, validUntil, lastUsedAt }: ProjectKeyInfo) {
  return {
    id,
    kind,
    state,
    created_at: createdAt.toISOString(),
    valid_until: validUntil?.toISOString() ?? null,
    last_used_at: lastUsedAt?.toISOString() ?? null,
  };
}
