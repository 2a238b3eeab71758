import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { projectTarget, type ServerOptions } from './api.ts';
import { CommandError } from './command.ts';
import { print, printJson } from './output.ts';
import { fileNames, projectDefinitions, readDefinitions } from './workflow-files.ts';

interface Written {
  key: string;
  file: string;
  text: string;
  change: 'changed' | 'created';
}

/**
 * `belfry workflow pull`: writes each workflow of the project to a file. Replaces a file that differs only
 * with `force`, and else writes nothing.
 */
export async function pullWorkflows(
  folder: string,
  options: ServerOptions & { force?: boolean; json?: boolean },
): Promise<void> {
  const { force = false, json = false } = options;
  const target = projectTarget(options);
  await mkdir(folder, { recursive: true }).catch(cannotWrite(folder));
  const { definitions, paths } = await readDefinitions(folder);
  const pulled = await projectDefinitions(target);
  const names = fileNames([...pulled.keys()]);
  const written = [...pulled].flatMap(([key, text]): Written[] => {
    if (definitions.get(key) === text) return [];
    const file = paths.get(key) ?? join(folder, names.get(key) ?? '');
    return [{ key, file, text, change: definitions.has(key) ? 'changed' : 'created' }];
  });
  refuseConflicts(written, paths, force);
  for (const { file, text, change } of written) {
    await writeFile(file, text).catch(cannotWrite(file));
    if (!json) print(`${change}  ${file}`);
  }
  const kept = [...paths].flatMap(([key, file]) => (pulled.has(key) ? [] : [{ key, file }]));
  const unchanged = pulled.size - written.length;
  if (json)
    return printJson({
      written: written.map(({ key, file, change }) => ({ key, file, change })),
      kept,
      unchanged,
    });
  for (const { file } of kept) print(`kept     ${file}: not in the project`);
  print(`${pulled.size} workflow${pulled.size === 1 ? '' : 's'}, ${unchanged} unchanged`);
}

/** Throws for each file that must not be replaced. One with another workflow never is. */
function refuseConflicts(
  written: readonly Written[],
  paths: ReadonlyMap<string, string>,
  force: boolean,
): void {
  const keyIn = new Map([...paths].map(([key, file]) => [file, key]));
  const [first, ...more] = written.flatMap(({ key, file, change }) => {
    if (change === 'created')
      return keyIn.has(file)
        ? [`${file} has the workflow ${keyIn.get(file)}, not ${key}: rename the file`]
        : [];
    return force ? [] : [`${file} differs from the project: save it with push, or replace it with --force`];
  });
  if (first !== undefined) throw new CommandError(first, ...more);
}

function cannotWrite(path: string) {
  return (error: NodeJS.ErrnoException): never => {
    throw new CommandError(`${path} cannot be written (${error.code}): check the path`);
  };
}
