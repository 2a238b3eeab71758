import { createHash } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import { basename, relative } from 'node:path';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { ClientError } from '../../errors.ts';
import type { App } from '../route.ts';

const compressed = promisify(gzip);

const TYPES: Record<string, string> = {
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
};

/** Browser code as it is served: the files by their names, and the name of the file of each entry. */
interface Bundle {
  files: Map<string, { type: string; content: Uint8Array; gzipped: Buffer }>;
  entries: string[];
  /** Each source with its time of change, in milliseconds. */
  sources: Map<string, number>;
}

/**
 * Serves TypeScript and CSS to browsers, under `<prefix>/<name>-<hash>.<js|css>`. It is loaded at the first
 * use, and again when a source has changed. Returns a function that resolves to the paths of the entries.
 */
export function serveBrowserCode(
  { fastify, limits }: App,
  { prefix, entries }: { prefix: string; entries: readonly string[] },
): () => Promise<string[]> {
  let current: Promise<Bundle> | undefined;
  const loaded = async () => {
    const before = current;
    if (before !== undefined && (await isCurrent(before))) return before;
    // Another request may have started to load it meanwhile.
    if (current === before) current = load(entries);
    return current as Promise<Bundle>;
  };

  fastify.get(
    `${prefix}/:file(^[\\w.-]+\\.(?:js|css)$)`,
    { schema: { hide: true }, config: { operationId: 'browserCode' } },
    async (request, reply) => {
      await limits.stranger(request, reply);
      const { file } = request.params as { file: string };
      const found = (await (current ?? loaded())).files.get(file);
      if (found === undefined) throw new ClientError('not_found', [`There is no file ${file}`]);
      const gzips = /\bgzip\b/.test(request.headers['accept-encoding'] ?? '');
      if (gzips) reply.header('content-encoding', 'gzip');
      return reply
        .header('content-type', found.type)
        .header('cache-control', 'public, max-age=31536000, immutable') // the name has the hash
        .header('vary', 'accept-encoding')
        .send(gzips ? found.gzipped : found.content);
    },
  );

  return async () => (await loaded()).entries.map((name) => `${prefix}/${name}`);
}

async function isCurrent(bundle: Promise<Bundle>): Promise<boolean> {
  const sources = await bundle.then(
    ({ sources }) => sources,
    () => undefined,
  );
  if (sources === undefined) return false;
  const same = await Promise.all(
    [...sources].map(async ([path, changedMs]) => (await changeOf(path)) === changedMs),
  );
  return same.every(Boolean);
}

const changeOf = (path: string) =>
  stat(path).then(
    ({ mtimeMs }) => mtimeMs,
    () => undefined,
  );

/** Bundles the sources of a clone. Those of a published package are bundled already. */
function load(entries: readonly string[]): Promise<Bundle> {
  return entries.some((entry) => entry.endsWith('.ts')) ? bundle(entries) : readBundled(entries);
}

async function bundle(entries: readonly string[]): Promise<Bundle> {
  // Only here: a published package has no esbuild, and most servers never show the pages that need it.
  const { build, stop } = await import('esbuild');
  const root = process.cwd();
  const { outputFiles, metafile } = await build({
    entryPoints: [...entries],
    absWorkingDir: root,
    outdir: root,
    bundle: true,
    splitting: true,
    format: 'esm',
    target: 'es2022',
    minify: true,
    entryNames: '[name]-[hash]',
    chunkNames: '[name]-[hash]',
    legalComments: 'none',
    metafile: true,
    write: false,
    logLevel: 'silent', // errors are thrown
  });
  await stop(); // ends its process
  const nameOf = (entry: string) => {
    const [path] =
      Object.entries(metafile.outputs).find(([, { entryPoint }]) => entryPoint === relative(root, entry)) ??
      [];
    if (path === undefined) throw new Error(`${entry} was not bundled`);
    return basename(path);
  };
  const sources = await Promise.all(
    Object.keys(metafile.inputs).map(async (path) => [path, (await changeOf(path)) ?? 0] as const),
  );
  return {
    files: await withGzip(outputFiles.map(({ path, contents }) => [basename(path), contents])),
    entries: entries.map(nameOf),
    sources: new Map(sources),
  };
}

async function readBundled(paths: readonly string[]): Promise<Bundle> {
  const contents = await Promise.all(
    paths.map(async (path): Promise<[string, Uint8Array]> => {
      const content = await readFile(path);
      const hash = createHash('sha256').update(content).digest('hex').slice(0, 8);
      return [basename(path).replace('.', `-${hash}.`), content];
    }),
  );
  return { files: await withGzip(contents), entries: contents.map(([name]) => name), sources: new Map() };
}

async function withGzip(contents: readonly (readonly [string, Uint8Array])[]): Promise<Bundle['files']> {
  const files = await Promise.all(
    contents.map(async ([name, content]) => {
      const type = TYPES[name.split('.').at(-1) ?? ''] ?? 'application/octet-stream';
      return [name, { type, content, gzipped: await compressed(content) }] as const;
    }),
  );
  return new Map(files);
}
