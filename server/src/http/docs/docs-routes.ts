import type { FastifyReply, FastifyRequest } from 'fastify';
import { ENGLISH } from '../../domain/ground/catalogues/languages.ts';
import { waitAtMost } from '../../lib/wait.ts';
import { acceptsGzip, prefersHtml } from '../accept.ts';
import { sendNothing } from '../pages/home.ts';
import { sendPage } from '../pages/page.ts';
import type { App } from '../route.ts';
import { GUIDE_PATH } from '../v1/api.ts';
import { BASE, DocsSite, type SiteFile } from './site.ts';

// A build takes about two seconds. After this time, browsers get a page that reloads itself. Other clients
// cannot reload, and wait.
const PATIENCE_MS = 5_000;
const RELOAD_SECONDS = 2;

/** Serves the guides and the API reference. */
export function docsRoutes({ fastify, context, limits }: App, cache?: string): void {
  const site = new DocsSite({ log: context.log, ...(cache !== undefined && { cache }) });
  fastify.addHook('onClose', async () => site.close());
  const hidden = { schema: { hide: true } };

  const serve = async (request: FastifyRequest, reply: FastifyReply) => {
    await limits.stranger(request, reply);
    const { '*': path = '' } = request.params as { '*'?: string };
    const built = site.files().catch(() => 'failed' as const);
    const files = await (prefersHtml(request)
      ? waitAtMost(PATIENCE_MS, built, () => 'building' as const)
      : built);
    if (files === 'building') return sendBuilding(reply);
    if (files === 'failed') return sendFailure(reply);
    const folder = path === '' || path.endsWith('/') ? path : `${path}/`;
    const file = files.get(path) ?? files.get(folder);
    return file === undefined ? sendNothing(request, reply) : send(file, { request, reply, site });
  };
  fastify.get('/docs', hidden, serve);
  fastify.get('/docs/*', hidden, serve);
  fastify.get(GUIDE_PATH, hidden, (_request, reply) => reply.redirect(`${BASE}guides/from-v1/`, 301));
}

const HEADERS = {
  // The API reference and the diagrams set styles on their elements.
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
    "font-src 'self'; connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  vary: 'accept-encoding',
};

async function send(
  file: SiteFile,
  { request, reply, site }: { request: FastifyRequest; reply: FastifyReply; site: DocsSite },
): Promise<FastifyReply> {
  const { type, etag, isImmutable, read, readCompressed } = file;
  reply.headers({
    ...HEADERS,
    'content-type': type,
    'cache-control': isImmutable ? 'public, max-age=31536000, immutable' : 'no-cache',
    etag,
  });
  if (request.headers['if-none-match'] === etag) return reply.code(304).send();
  try {
    if (readCompressed !== undefined && acceptsGzip(request))
      return reply.header('content-encoding', 'gzip').send(await readCompressed());
    return reply.send(await read());
  } catch (error) {
    site.reopen(); // the folder was deleted
    throw error;
  }
}

function sendBuilding(reply: FastifyReply): FastifyReply {
  reply.header('refresh', String(RELOAD_SECONDS)).header('retry-after', String(RELOAD_SECONDS));
  return sendPage(reply, 503, ENGLISH, {
    title: 'One moment',
    text: 'The documentation is being built. This page reloads itself.',
  });
}

function sendFailure(reply: FastifyReply): FastifyReply {
  return sendPage(reply, 500, ENGLISH, {
    title: 'The documentation could not be built',
    text: 'The log of the server has the reason. Everything else works.',
    links: [{ label: 'The OpenAPI document', href: '/v2/openapi.json' }],
  });
}
