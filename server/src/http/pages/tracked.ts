import type { FastifyReply, FastifyRequest } from 'fastify';
import { type Kind, readTrackedToken, type TrackedDelivery } from '../../domain/ground/links/links.ts';
import type { App } from '../route.ts';
import { PRIVATE, sendBrokenLink } from './page.ts';

// The bodies of these requests are ignored.
const BODY_LIMIT_BYTES = 16 * 1024;

/**
 * Tracked links, which redirect only to the address that was signed with them, and the image of tracked
 * opens. Both respond at once, in any state of the database.
 */
export async function trackedRoutes(app: App): Promise<void> {
  const { hits, clock } = app.context;
  const read = tokenReader(app);
  await app.fastify.register((scope, _options, done) => {
    // Any content type, because browsers choose one for beacons.
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, _body, done) => done(null, undefined));

    scope.get('/t/c/:token', hidden('followLink'), async (request, reply) => {
      const target = targetOf(request);
      const delivery = await read(request, reply, 'c', target);
      if (delivery === undefined || !isWeb(target)) return sendBrokenLink(request, reply);
      if (isByUser(request)) hits.note({ ...delivery, kind: 'click', url: target, atMs: clock.now() });
      return reply.code(302).headers(HEADERS).header('location', target).send();
    });

    // A push message has no link to follow, so its service worker reports the click.
    scope.post('/t/c/:token', hidden('reportClick'), async (request, reply) => {
      const target = targetOf(request);
      const delivery = await read(request, reply, 'c', target);
      if (delivery === undefined) return sendBrokenLink(request, reply);
      const url = target === '' ? {} : { url: target };
      hits.note({ ...delivery, kind: 'click', ...url, atMs: clock.now() });
      return reply.code(204).headers(HEADERS).send();
    });

    scope.get('/t/o/:token', hidden('loadImage'), (request, reply) => {
      // The image does not wait for this, and is always the same.
      read(request, reply, 'o', '').then(
        (delivery) => {
          if (delivery !== undefined && isByUser(request))
            hits.note({ ...delivery, kind: 'open', atMs: clock.now() });
        },
        () => {}, // rate limited, or the key cannot be read: nothing to record
      );
      return reply.headers(HEADERS).header('content-type', 'image/gif').send(IMAGE);
    });
    done();
  });
}

/**
 * These routes are not in the API description, and their paths not in the log: anyone with such a path counts
 * as the recipient.
 */
function hidden(operationId: string) {
  return { schema: { hide: true }, config: { operationId, secretPath: true }, bodyLimit: BODY_LIMIT_BYTES };
}

type Reader = (
  request: FastifyRequest,
  reply: FastifyReply,
  kind: Kind,
  target: string,
) => Promise<TrackedDelivery | undefined>;

/**
 * Reads the delivery of a request. Undefined if the token and the target were not signed by this server.
 *
 * Signed links do not count in the limit of their address, because an office may share one, and a signature
 * is verified in 5 µs. Others count, and above the limit no key is read from the database.
 */
function tokenReader({ context, limits }: App): Reader {
  return async (request, reply, kind, target) => {
    const given = (request.params as { token: string }).token.replace(IMAGE_SUFFIX, '');
    const token = readTrackedToken(given);
    if (token !== undefined && !context.projects.has(token.projectId)) limits.checkStranger(request, reply);
    const signers = token && (await context.projects.linkKeys(token.projectId));
    if (token === undefined || !signers?.some(({ key }) => token.isSigned(key, kind, target))) {
      await limits.stranger(request, reply);
      return undefined;
    }
    const { projectId, broadcastId, userId, channel } = token;
    return { projectId, broadcastId, userId, channel };
  };
}

const HEADERS = {
  'cache-control': 'no-store',
  ...PRIVATE,
};

const IMAGE_SUFFIX = /\.gif$/;
/** One transparent pixel. */
const IMAGE = Buffer.from('R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7', 'base64');

/** The target of a link; empty if it has none or several. */
function targetOf({ query }: FastifyRequest): string {
  const { u } = query as { u?: unknown };
  return typeof u === 'string' ? u : '';
}

/** Signed targets are always web addresses; checked again before the redirect. */
function isWeb(target: string): boolean {
  const url = URL.parse(target);
  return url !== null && /^https?:$/.test(url.protocol) && url.href === target;
}

/** False for requests that check or prefetch a link. */
function isByUser({ method, headers }: FastifyRequest): boolean {
  if (method === 'HEAD') return false;
  const purposes = [headers['sec-purpose'], headers.purpose, headers['x-purpose'], headers['x-moz']];
  return !purposes.some((purpose) => /prefetch|prerender|preview/i.test(String(purpose)));
}
