import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { problemsIn } from '../contract/validation.ts';
import { MAX_WORKFLOW_BYTES, NewWorkflow } from '../contract/workflow.ts';
import { workflowProblems } from '../domain/workflows/definitions/save.ts';
import { request, type Target } from './api.ts';
import { CommandError, unreadable } from './command.ts';

/** The text of a definition as it is written to files, by the key of the workflow. */
export type Definitions = ReadonlyMap<string, string>;

export interface WorkflowFiles {
  definitions: Definitions;
  /** The path of the file of each definition, by its key. */
  paths: ReadonlyMap<string, string>;
}

/** Reads the definitions of the project. */
export async function projectDefinitions(target: Target): Promise<Definitions> {
  const response = await request(target, '/workflows');
  const { items } = (await response.json()) as { items: NewWorkflow[] };
  return new Map(items.map((item) => [item.key, textOf(item)]));
}

/**
 * Reads the definitions in the `.json` files of a folder. Throws a `CommandError` with the problems of all
 * files. A key may stand in only one file, whose name does not matter.
 */
export async function readDefinitions(folder: string): Promise<WorkflowFiles> {
  const names = (await readdir(folder).catch(unreadable(folder))).filter((name) => name.endsWith('.json'));
  const definitions = new Map<string, string>();
  const paths = new Map<string, string>();
  const problems: string[] = [];
  for (const name of names.sort()) {
    const path = join(folder, name);
    const { definition, problems: ofFile } = await readDefinition(path);
    if (definition !== undefined) {
      const other = paths.get(definition.key);
      if (other !== undefined) ofFile.push(`the key ${definition.key} is that of ${other} as well`);
      definitions.set(definition.key, textOf(definition));
      paths.set(definition.key, path);
    }
    problems.push(...ofFile.map((problem) => `${path}: ${problem}`));
  }
  const [first, ...more] = problems;
  if (first !== undefined) throw new CommandError(first, ...more);
  return { definitions, paths };
}

const shapeProblems = problemsIn(NewWorkflow);

async function readDefinition(path: string): Promise<{ definition?: NewWorkflow; problems: string[] }> {
  const text = await readFile(path, 'utf8').catch(unreadable(path));
  let value: unknown;
  try {
    value = JSON.parse(text.replace(/^\ufeff/, ''));
  } catch (error) {
    return { problems: [`is not JSON: ${(error as Error).message}`] };
  }
  const problems = [...shapeProblems(value), ...(await workflowProblems(value, Date.now()))];
  if (problems.length > 0) return { problems };
  const definition = value as NewWorkflow;
  if (Buffer.byteLength(JSON.stringify(definition)) > MAX_WORKFLOW_BYTES)
    problems.push(`has more than ${MAX_WORKFLOW_BYTES} bytes`);
  return { definition, problems };
}

/** Returns a definition without what the server adds, always in the same format. */
function textOf({ key, disabled, triggers = [], steps }: NewWorkflow): string {
  const members = {
    key,
    ...(disabled ? { disabled } : {}),
    ...(triggers.length > 0 ? { triggers } : {}),
    steps,
  };
  return `${JSON.stringify(members, null, 2)}\n`;
}

// Names that Windows reserves for devices, and hidden files.
const UNUSABLE = /^(con|prn|aux|nul|com\d|lpt\d)(\.|$)|^\./i;
// File systems allow 255 bytes.
const MAX_NAME_CHARACTERS = 150;

/**
 * Returns the name of a new file for each key: one that every file system allows, and that differs from the
 * others even where upper and lower case are the same.
 */
export function fileNames(keys: readonly string[]): Map<string, string> {
  const counts = new Map<string, number>();
  for (const key of keys) counts.set(key.toLowerCase(), (counts.get(key.toLowerCase()) ?? 0) + 1);
  return new Map(
    keys.map((key) => {
      const isUsable = !UNUSABLE.test(key) && !key.includes(':') && key.length <= MAX_NAME_CHARACTERS;
      if (isUsable && counts.get(key.toLowerCase()) === 1) return [key, `${key}.json`];
      const readable = key.replace(/^\.+|:/g, '_').slice(0, MAX_NAME_CHARACTERS);
      const digest = createHash('sha256').update(key).digest('hex').slice(0, 8);
      return [key, `${UNUSABLE.test(readable) ? '_' : ''}${readable}~${digest}.json`];
    }),
  );
}
