import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, mkdtemp, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { setPriority } from 'node:os';
import { basename, extname, join, relative, sep } from 'node:path';
import type { Logger } from '../../lib/log.ts';
import { hashOfSources, ROOT } from './sources.ts';

/** The path under which the site is served. */
export const BASE = '/docs/';

// A published package brings the site as the only folder in it, and has no tools to build one.
const PACKAGED = join(ROOT, 'docs-site');
const BUILDER = join(ROOT, 'docs', 'site', 'build', 'main.ts');
// npm removes it when it installs a release.
const CACHE = join(ROOT, 'node_modules', '.cache', 'belfry-docs');
const LOW_PRIORITY = 10; // requests come first
const BUILD_TIMEOUT_MS = 120_000;
const RETRY_MS = 10_000;
const OLD_MS = 24 * 60 * 60_000; // another server may still send them

/** A file of the site. */
export interface SiteFile {
  type: string;
  /** Identifies the content. */
  etag: string;
  /** Whether its path contains a hash of its content. */
  isImmutable: boolean;
  read(): Promise<Buffer>;
  /** Reads it as gzip; undefined if that would not be smaller. */
  readCompressed?: () => Promise<Buffer>;
}

type Files = ReadonlyMap<string, SiteFile>;

/**
 * The site of the documentation. In a clone, another process builds it when it is first needed, and again
 * after its sources have changed: at the next start.
 */
export class DocsSite {
  readonly #log: Logger;
  readonly #cache: string;
  readonly #closing = new AbortController();
  #files: Promise<Files> | undefined;

  constructor({ log, cache = CACHE }: { log: Logger; cache?: string }) {
    this.#log = log;
    this.#cache = cache;
  }

  /** Resolves to the files by their path, such as `guides/channels/`. Rejects if the build fails. */
  files(): Promise<Files> {
    if (this.#files === undefined) {
      this.#files = this.#open();
      this.#files.catch((error: unknown) => {
        if (this.#closing.signal.aborted) return;
        this.#log.error({ err: error }, 'the documentation could not be built');
        setTimeout(() => this.reopen(), RETRY_MS).unref();
      });
    }
    return this.#files;
  }

  /** Opens the site once more at the next request, such as after its files were deleted. */
  reopen(): void {
    this.#files = undefined;
  }

  /** Ends a running build. */
  close(): void {
    this.#closing.abort();
  }

  async #open(): Promise<Files> {
    const [packaged] = await readdir(PACKAGED).catch(() => []);
    if (packaged !== undefined) return filesIn(join(PACKAGED, packaged));
    const hash = hashOfSources();
    const folder = join(this.#cache, hash);
    const present = await filesIn(folder);
    if (present.size > 0) return present;
    await this.#build(folder);
    const built = await filesIn(folder);
    if (built.size === 0) throw new Error(`the build has written nothing to ${folder}`);
    await this.#removeOld(hash);
    return built;
  }

  /** Removes the sites of former sources, and what killed builds have left. */
  async #removeOld(hash: string): Promise<void> {
    for (const name of await readdir(this.#cache)) {
      const path = join(this.#cache, name);
      const changedAt = (await stat(path).catch(() => undefined))?.mtimeMs ?? Date.now();
      const isOld = name !== hash && changedAt < Date.now() - OLD_MS;
      if (isOld) await rm(path, { recursive: true, force: true });
    }
  }

  /** Builds the site in a temporary folder, which then gets its name: another server may do the same. */
  async #build(folder: string): Promise<void> {
    await mkdir(this.#cache, { recursive: true });
    const temporary = await mkdtemp(join(this.#cache, 'new-'));
    const startedAt = performance.now();
    try {
      await this.#run([temporary, '--base', BASE, '--served']);
      // Root may build what a user without rights serves.
      await chmod(temporary, 0o755);
      await rename(temporary, folder).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST' && error.code !== 'EPERM') throw error;
      });
    } finally {
      await rm(temporary, { recursive: true, force: true });
    }
    this.#log.info({ ms: Math.round(performance.now() - startedAt) }, 'the documentation is built');
  }

  async #run(args: string[]): Promise<void> {
    const child = spawn(process.execPath, [BUILDER, ...args], {
      stdio: ['ignore', 'ignore', 'pipe'],
      signal: this.#closing.signal,
      timeout: BUILD_TIMEOUT_MS,
    });
    if (child.pid !== undefined) setPriority(child.pid, LOW_PRIORITY);
    let printed = '';
    child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
      printed = (printed + chunk).slice(0, 10_000);
    });
    const [code, signal] = (await once(child, 'close')) as [number | null, string | null];
    if (code !== 0) throw new Error(`the build ended with ${code ?? signal}: ${printed.trim()}`);
  }
}

const TYPES: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json; charset=utf-8',
  '.svg': 'image/svg+xml',
};

/** Returns the files of a built site; none if there is no such folder. Its name identifies the content. */
async function filesIn(folder: string): Promise<Files> {
  const hash = basename(folder);
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => []);
  const paths = entries
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)).replaceAll(sep, '/'));
  const all = new Set(paths);
  const read = (path: string) => () => readFile(join(folder, path));
  const files = new Map<string, SiteFile>();
  for (const path of paths.filter((one) => !(one.endsWith('.gz') && all.has(one.slice(0, -3))))) {
    files.set(path.replace(/(^|\/)index\.html$/, '$1'), {
      type: TYPES[extname(path)] ?? 'text/plain; charset=utf-8',
      etag: `W/"${hash}"`, // weak: also for the compressed file
      isImmutable: path.startsWith('assets/'),
      read: read(path),
      ...(all.has(`${path}.gz`) && { readCompressed: read(`${path}.gz`) }),
    });
  }
  return files;
}
