import { readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { namedStatements } from '../../src/db/client.ts';

const SOURCES = fileURLToPath(new URL('../../src/', import.meta.url));
/** Programs, which run when they are imported. */
const PROGRAMS = /(^main|make-template)\.ts$|\.test\.ts$/;

/** The texts of the named statements of all modules, by name. */
export async function allStatements(): Promise<ReadonlyMap<string, string>> {
  for (const file of readdirSync(SOURCES, { recursive: true, encoding: 'utf8' }))
    if (file.endsWith('.ts') && !PROGRAMS.test(file)) await import(`${SOURCES}${file}`);
  return namedStatements;
}
