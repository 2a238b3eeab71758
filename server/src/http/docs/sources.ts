import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The folder of this copy of Belfry. */
export const ROOT = fileURLToPath(new URL('../../../../', import.meta.url));

// The guides, the files that they link to, and the program that builds the site with its libraries.
const SOURCES = [
  'compose.yaml',
  'deploy',
  'docs',
  'examples',
  'inbox/README.md',
  'openapi.json',
  'openapi-v1.json',
  'package.json',
  'schema.graphql',
  'sdk/README.md',
  'server/src/http/docs',
  'server/src/http/pages/icons',
];

/** Returns a hash of everything that the site of the documentation is built from. */
export function hashOfSources(): string {
  const hash = createHash('sha256');
  for (const path of SOURCES.flatMap(filesAt)) {
    const content = readFileSync(join(ROOT, path));
    hash.update(`${path}\0${content.length}\0`).update(content);
  }
  return hash.digest('hex').slice(0, 32);
}

/** Returns the files at or below a path, in a stable order. */
export function filesAt(path: string): string[] {
  if (!statSync(join(ROOT, path)).isDirectory()) return [path];
  return readdirSync(join(ROOT, path))
    .sort()
    .flatMap((name) => filesAt(`${path}/${name}`));
}
