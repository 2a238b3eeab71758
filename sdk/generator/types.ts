import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient } from '@hey-api/openapi-ts';

import type { ApiDocument, Schema } from './document.ts';

const HEAD = '// Made from openapi.json by `npm run generate`: change the API, not this file.\n';

/** The module with a type for every named schema and every query. */
export async function printTypes(document: ApiDocument, queries: Record<string, Schema>): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'belfry-sdk-'));
  try {
    await createClient({
      // Without operations: their types would be ten times as long as those of the schemas.
      input: {
        openapi: '3.1.0',
        info: { title: 'Belfry', version: '2.0.0' },
        paths: {},
        components: { schemas: { ...untitled(document.components.schemas), ...queries } },
      },
      output: folder,
      plugins: ['@hey-api/typescript'],
      parser: { transforms: { readWrite: false } },
      logs: { level: 'silent', file: false },
    });
    const text = await readFile(join(folder, 'types.gen.ts'), 'utf8');
    const first = text.indexOf('\n\n', text.indexOf('export type ClientOptions'));
    return HEAD + text.slice(first + 1).replaceAll(/\/\*\*\n *\* (.*)\n *\*\//g, '/** $1 */');
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Without titles, which would only repeat the names in comments. */
function untitled(schemas: Record<string, Schema>): Record<string, Schema> {
  return Object.fromEntries(Object.entries(schemas).map(([name, { title: _, ...rest }]) => [name, rest]));
}
