import { readFile } from 'node:fs/promises';
import type { Section } from './headings.ts';

/** Reads the operations of the API for the search. Their anchors are those of the API reference. */
export async function readOperations(base: string): Promise<Section[]> {
  const { paths } = JSON.parse(await readFile('openapi.json', 'utf8')) as OpenApi;
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(
      ([
        method,
        {
          summary,
          description,
          tags: [tag = ''],
        },
      ]) => ({
        title: summary,
        page: `${method.toUpperCase()} ${path}`,
        text: description,
        href: `${base}api/#tag/${tag.toLowerCase().replaceAll(' ', '-')}/${method.toUpperCase()}${path}`,
      }),
    ),
  );
}

interface OpenApi {
  paths: Record<string, Record<string, { summary: string; description: string; tags: string[] }>>;
}
