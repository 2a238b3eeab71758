import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { Eleventy } from '@11ty/eleventy';
import { filesAt, ROOT } from '../../../server/src/http/docs/sources.ts';
import { type Asset, readAssets } from './assets.ts';
import { outlineOf, sectionsOf } from './headings.ts';
import { siteLink, urlOf } from './links.ts';
import { amendMarkdown } from './markdown.ts';
import { groupsOf } from './navigation.ts';
import { readOperations } from './operations.ts';

interface SiteOptions {
  /** The folder to write to. */
  output: string;
  /** The path under which the site is served, with a slash at both ends. */
  base: string;
  /** Whether a running server serves it, which describes its own API. */
  served: boolean;
}

/** A guide. */
interface Guide {
  file: string;
  text: string;
  title: string;
  /** Its path below the base. */
  url: string;
  href: string;
}

const REFERENCES = [
  { url: '/api/', title: 'API reference', file: 'openapi.json', live: '/v2/openapi.json' },
  { url: '/v1/', title: 'API reference of version 1', file: 'openapi-v1.json', live: '/v1/openapi.json' },
];

/** Writes the site of the documentation: the guides, the API reference, and what they need. */
export async function buildSite({ output, base, served }: SiteOptions): Promise<void> {
  const folder = resolve(output);
  process.chdir(ROOT); // Eleventy reads paths relative to the working directory
  const [guides, assets] = await Promise.all([readGuides(base), readAssets()]);
  const linked = new Set<string>();
  const pages = await render({ guides, assets, base, served, linked });
  const sections = pages.flatMap(({ url, content }) => {
    const guide = guides.find((one) => one.url === url);
    const article = /<article>(.*)<\/article>/s.exec(content)?.[1] ?? '';
    return guide === undefined || isDecision(guide) ? [] : sectionsOf(article, guide);
  });
  const files = new Map<string, string | Buffer>([
    ...pages.map(({ url, content }) => [`${url}index.html`, content] as const),
    ...[...assets.values()].map(({ path, content }) => [path, content] as const),
    ['search.json', JSON.stringify([...sections, ...(await readOperations(base))])],
    ['favicon.svg', await readFile('server/src/http/pages/icons/favicon.svg')],
  ]);
  for (const file of [...linked].flatMap(filesAt)) files.set(`files/${file}`, await readFile(file));
  if (!served) for (const { file } of REFERENCES) files.set(file, await readFile(file));
  for (const [path, content] of files) await write(join(folder, path), content);
}

async function readGuides(base: string): Promise<Guide[]> {
  const inDocs = filesAt('docs').filter((file) => file.endsWith('.md'));
  const files = [...inDocs, 'sdk/README.md', 'inbox/README.md'];
  return Promise.all(
    files.map(async (file) => {
      const text = await readFile(file, 'utf8');
      const title = (/^# (.*)$/m.exec(text)?.[1] ?? file).replaceAll('`', '');
      const url = urlOf(file);
      return { file, text, title, url, href: base + url.slice(1) };
    }),
  );
}

function isDecision({ file }: Guide): boolean {
  return file.startsWith('docs/decisions/');
}

interface RenderOptions {
  guides: readonly Guide[];
  assets: ReadonlyMap<string, Asset>;
  base: string;
  served: boolean;
  /** Gets the files that the guides link to, and that are not pages. */
  linked: Set<string>;
}

async function render({ guides, assets, base, served, linked }: RenderOptions) {
  const byFile = new Map(guides.map((guide) => [guide.file, guide]));
  const groups = groupsOf([...byFile.keys()]).map(({ title, files }) => ({
    title,
    pages: files.flatMap((file) => byFile.get(file) ?? []),
  }));
  const inOrder = groups.flatMap(({ pages }) => pages);
  const eleventy = new Eleventy('docs/site', 'unused', {
    quietMode: true,
    configPath: false,
    config(config) {
      config.addGlobalData('base', base);
      config.addGlobalData('navigation', groups);
      config.addFilter('asset', (name: string) => base + assets.get(name)?.path);
      config.addFilter('outline', outlineOf);
      config.addFilter('neighbours', (url: string) => neighboursOf(url, inOrder));
      config.amendLibrary('md', (markdown) =>
        amendMarkdown(markdown, (link, from) =>
          siteLink(link, {
            from,
            base,
            isPage: (file) => byFile.has(file),
            onFile: (file) => linked.add(file),
          }),
        ),
      );
      for (const { file, text, title, url } of guides)
        config.addTemplate(file, text, {
          layout: 'guide.liquid',
          templateEngineOverride: 'md', // the guides have examples of Liquid
          permalink: `${url}index.html`,
          title,
          file,
        });
      for (const { url, title, file, live } of REFERENCES)
        config.addTemplate(`${file}.liquid`, '', {
          layout: 'reference.liquid',
          permalink: `${url}index.html`,
          title,
          isReference: true,
          document: served ? live : base + file,
        });
    },
  });
  return eleventy.toJSON();
}

function neighboursOf(url: string, guides: readonly Guide[]): { previous?: Guide; next?: Guide } {
  const at = guides.findIndex((guide) => guide.url === url);
  const [previous, next] = at < 0 ? [] : [guides[at - 1], guides[at + 1]];
  return { ...(previous && { previous }), ...(next && { next }) };
}

const TEXT = /\.(html|css|js|json|svg|md|graphql)$/;
const MIN_COMPRESSED_BYTES = 1024;

/** Writes a file, and a compressed one beside it that servers can send instead. */
async function write(path: string, content: string | Buffer): Promise<void> {
  const bytes = Buffer.from(content);
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, bytes);
  if (TEXT.test(path) && bytes.length >= MIN_COMPRESSED_BYTES)
    await writeFile(`${path}.gz`, await promisify(gzip)(bytes, { level: 9 }));
}
