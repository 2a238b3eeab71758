import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { build } from 'esbuild';
import type { Browser, BrowserContext, BrowserContextOptions, Page } from 'playwright-core';
import { onTestFinished } from 'vitest';
import type { BelfryInbox } from '../../src/element/belfry-inbox.ts';
import type { Inbox } from '../../src/store/index.ts';
import { type Look, pagesFor } from './shared-context.ts';

const ENTRY = `
import { createInbox } from './src/store/index.ts';
import './src/element/define.ts';
globalThis.createInbox = createInbox;
globalThis.problems = [];
const note = (type, read) => addEventListener(type, (event) => problems.push(read(event)));
note('securitypolicyviolation', ({ effectiveDirective: rule, blockedURI }) => rule + ' ' + blockedURI);
note('error', ({ message }) => message);
note('unhandledrejection', ({ reason }) => String(reason));
`;

/** A site with an inbox, under a strict content security policy. */
export interface Site {
  url: string;
  /** Files that the inbox loaded, and their texts. */
  requested: string[];
  /** What a page reported that its policy does not allow, or that failed. */
  problems: string[];
  /** Lets the site have this page from now on. Returns its address. */
  serve(options: PageOptions): string;
  /** Opens a page with this HTML in Chromium, until the test has finished. */
  open(browser: Browser | BrowserContext, options?: PageOptions): Promise<Page>;
  close(): Promise<void>;
}

export interface PageOptions extends Look {
  html?: string;
  /** The text of a file of the page. */
  style?: string;
  /** Gives the page a context of its own: see `pagesFor`. */
  context?: BrowserContextOptions;
  /** Other directives than the default. */
  policy?: string;
}

/** What a strict site allows. */
export const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  'connect-src *',
  'img-src *',
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ');

/** Serves the element as a bundler makes it. */
export async function startSite(): Promise<Site> {
  const { outputFiles } = await build({
    stdin: { contents: ENTRY, resolveDir: join(import.meta.dirname, '../..'), loader: 'ts' },
    bundle: true,
    splitting: true,
    format: 'esm',
    minify: true,
    target: 'es2022',
    outdir: '/',
    entryNames: 'entry',
    write: false,
  });
  const files = new Map(outputFiles.map(({ path, text }) => [path, text]));
  let page: PageOptions = {};
  const server = createServer(({ url = '/' }, response) => {
    site.requested.push(url);
    const script = files.get(url);
    if (script !== undefined) response.setHeader('content-type', 'text/javascript').end(script);
    else if (url === '/style.css') response.setHeader('content-type', 'text/css').end(page.style ?? '');
    else
      response
        .setHeader('content-type', 'text/html; charset=utf-8')
        .setHeader('content-security-policy', page.policy ?? POLICY)
        .end(
          `<!doctype html><html lang="en"><head><title>Site</title>
          <meta name="viewport" content="width=device-width"><link rel="stylesheet" href="/style.css">
          <script type="module" src="/entry.js"></script></head><body>${page.html ?? ''}</body></html>`,
        );
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  let openShared: ReturnType<typeof pagesFor> | undefined;
  const newPage = async (browser: Browser | BrowserContext, options: PageOptions): Promise<Page> => {
    if (!('newContext' in browser)) return browser.newPage();
    if (!options.context) {
      openShared ??= pagesFor(browser, site.url, CONTEXT);
      return openShared(options);
    }
    const context = await browser.newContext({ ...CONTEXT, ...options.context });
    onTestFinished(() => context.close());
    return context.newPage();
  };
  const site: Site = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requested: [],
    problems: [],
    serve(options) {
      page = options;
      return site.url;
    },
    async open(browser, options = {}) {
      page = options;
      const opened = await newPage(browser, options);
      opened.on('console', (message) => {
        if (message.type() === 'error') site.problems.push(message.text());
      });
      opened.on('pageerror', ({ message }) => site.problems.push(message));
      await opened.goto(site.url);
      return opened;
    },
    async close() {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
  return site;
}

const CONTEXT = { locale: 'en-GB' };

/** What tests set on an inbox. With `pageSize`, it has a store of its own. */
export type InboxProperties = Partial<BelfryInbox> & { pageSize?: number };

/** Adds an inbox to a page of Chromium, and waits until it is connected. */
export async function addInbox(page: Page, properties: InboxProperties): Promise<void> {
  await page.evaluate(appendInbox, properties as { pageSize?: number });
  await page.waitForFunction(isConnected, undefined);
}

/** Runs in the page: adds an inbox. */
export function appendInbox({ pageSize, ...values }: InboxProperties): void {
  const element = Object.assign(document.createElement('belfry-inbox'), values);
  const { createInbox } = globalThis as unknown as { createInbox: (options: object) => Inbox };
  if (pageSize !== undefined) element.inbox = createInbox({ ...values, pageSize });
  document.body.append(element);
}

/** Runs in the page: returns whether its inbox is connected. */
export function isConnected(): boolean {
  const { inbox } = document.querySelector('belfry-inbox') as BelfryInbox;
  const { connection, counts } = inbox?.getSnapshot() ?? {};
  return (connection === 'live' || connection === 'polling') && counts?.unseen !== undefined;
}
