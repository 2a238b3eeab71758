import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { projectTarget, type ServerOptions } from './api.ts';
import { CommandError } from './command.ts';
import { print, printJson } from './output.ts';
import { fileNames, projectDefinitions, readDefinitions } from './workflow-files.ts';

/** `belfry workflow pull`: writes each workflow of the project to a file. */
export async function pullWorkflows(
  folder: string,
  options: ServerOptions & { json?: boolean },
): Promise<void> {
  const { json = false } = options;
  const target = projectTarget(options);
  await mkdir(folder, { recursive: true }).catch(cannotWrite(folder));
  const { definitions, paths } = await readDefinitions(folder);
  const pulled = await projectDefinitions(target);
  const names = fileNames([...pulled.keys()]);
  const written: { key: string; file: string; change: 'changed' | 'created' }[] = [];
  for (const [key, text] of pulled) {
    if (definitions.get(key) === text) continue;
    const file = paths.get(key) ?? join(folder, names.get(key) ?? '');
    await writeFile(file, text).catch(cannotWrite(file));
    const change = definitions.has(key) ? 'changed' : 'created';
    written.push({ key, file, change });
    if (!json) print(`${change}  ${file}`);
  }
  const kept = [...paths].flatMap(([key, file]) => (pulled.has(key) ? [] : [{ key, file }]));
  const unchanged = pulled.size - written.length;
  if (json) return printJson({ written, kept, unchanged });
  for (const { file } of kept) print(`kept     ${file}: not in the project`);
  print(`${pulled.size} workflow${pulled.size === 1 ? '' : 's'}, ${unchanged} unchanged`);
}

function cannotWrite(path: string) {
  return (error: NodeJS.ErrnoException): never => {
    throw new CommandError(`${path} cannot be written (${error.code}): check the path`);
  };
}
