import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { scalarScript } from './scalar-script.ts';

/** A file whose name contains a hash of its content, so that it can be cached for ever. */
export interface Asset {
  /** Its path in the site: `assets/site.1a2b3c4d.css`. */
  path: string;
  content: Buffer;
}

/** Reads the styles, scripts and libraries of the pages. */
export async function readAssets(): Promise<ReadonlyMap<string, Asset>> {
  const own = ['site.css', 'site.js', 'theme.js', 'reference.js'];
  const contents = await Promise.all([
    ...own.map(async (name) => [name, await readFile(`docs/site/${name}`)] as const),
    fileOf(import.meta.resolve('minisearch')).then((content) => ['minisearch.js', content] as const),
    fileOf(import.meta.resolve('@mermaid-js/tiny')).then((content) => ['mermaid.js', content] as const),
    scalarScript().then((text) => ['scalar.js', withoutSourceMap(text)] as const),
  ]);
  return new Map(contents.map(([name, content]) => [name, { path: pathOf(name, content), content }]));
}

function pathOf(name: string, content: Buffer): string {
  const hash = createHash('sha256').update(content).digest('hex').slice(0, 10);
  return `assets/${name.replace('.', `.${hash}.`)}`;
}

async function fileOf(library: string): Promise<Buffer> {
  return withoutSourceMap(await readFile(fileURLToPath(library), 'utf8'));
}

function withoutSourceMap(script: string): Buffer {
  return Buffer.from(script.replace(/\n?\/\/# sourceMappingURL=\S+\s*$/, '\n'));
}
