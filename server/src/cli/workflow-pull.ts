import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { projectTarget, type ServerOptions } from './api.ts';
import { CommandError } from './command.ts';
import { print } from './output.ts';
import { fileNames, projectDefinitions, readDefinitions } from './workflow-files.ts';

/** `belfry workflow pull`: writes each workflow of the project to a file. */
export async function pullWorkflows(folder: string, options: ServerOptions): Promise<void> {
  const target = projectTarget(options);
  await mkdir(folder, { recursive: true }).catch(cannotWrite(folder));
  const { definitions, paths } = await readDefinitions(folder);
  const pulled = await projectDefinitions(target);
  const names = fileNames([...pulled.keys()]);
  let unchanged = 0;
  for (const [key, text] of pulled) {
    if (definitions.get(key) === text) {
      unchanged += 1;
      continue;
    }
    const path = paths.get(key) ?? join(folder, names.get(key) ?? '');
    await writeFile(path, text).catch(cannotWrite(path));
    print(`${definitions.has(key) ? 'changed' : 'created'}  ${path}`);
  }
  for (const [key, path] of paths) if (!pulled.has(key)) print(`kept     ${path}: not in the project`);
  print(`${pulled.size} workflows, ${unchanged} unchanged`);
}

function cannotWrite(path: string) {
  return (error: NodeJS.ErrnoException): never => {
    throw new CommandError(`${path} cannot be written (${error.code}): check the path`);
  };
}
