import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname } from 'node:path';
import { build } from 'esbuild';

/** The page of a customer's app, on an origin of its own. */
export interface AppPage {
  url: string;
  stop(): Promise<void>;
}

const TYPES: Record<string, string> = {
  '.css': 'text/css',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
};

/**
 * Bundles a program with esbuild, as an app does, and serves its page on loopback. The program finds its
 * `settings` as a global. `files` are served beside it, by their path.
 */
export async function startAppPage(
  code: string,
  {
    settings = {},
    files = {},
    headers = {},
  }: { settings?: object; files?: Record<string, string>; headers?: Record<string, string> } = {},
): Promise<AppPage> {
  return servePage({ ...(await bundleApp(code, settings)), ...files }, headers);
}

/** Returns the files of the page of a program, by their path. */
export async function bundleApp(code: string, settings: object): Promise<Record<string, string>> {
  const { outputFiles } = await build({
    stdin: { contents: code, loader: 'tsx', resolveDir: import.meta.dirname },
    bundle: true,
    write: false,
    outdir: '/',
    format: 'esm',
    jsx: 'automatic',
    minify: true,
    define: { 'process.env.NODE_ENV': '"production"', settings: JSON.stringify(settings) },
  });
  const bundled = outputFiles.map(({ path, text }) => [path, text]);
  return { '/index.html': PAGE, '/stdin.css': '', ...Object.fromEntries(bundled) };
}

/** Serves files, by their path, on loopback. */
export async function servePage(
  files: Record<string, string>,
  headers: Record<string, string> = {},
): Promise<AppPage> {
  const served = new Map(Object.entries({ '/favicon.ico': '', ...files }));
  const server = createServer((request, response) => {
    const path = request.url?.replace(/\?.*$/, '').replace(/\/$/, '/index.html') ?? '';
    const body = served.get(path);
    const type = TYPES[extname(path)] ?? 'application/octet-stream';
    const status = body === undefined ? 404 : 200;
    response.writeHead(status, { ...headers, 'content-type': type }).end(body);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    async stop() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

/** The page of a program. */
const PAGE =
  '<!doctype html><html lang="en"><meta charset="utf-8"><title>App</title>' +
  '<link rel="stylesheet" href="/stdin.css"><div id="root"></div>' +
  '<script type="module" src="/stdin.js"></script></html>';
