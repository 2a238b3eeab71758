import type { FastifyReply, FastifyRequest } from 'fastify';
import { type Kind, readTrackedToken, type TrackedDelivery } from '../domain/ground/links/links.ts';
import { sendPage } from './page.ts';
import type { App } from './route.ts';

// What is sent to a link is read by nobody.
const BODY_LIMIT_BYTES = 16 * 1024;

/**
 * Where tracked links lead: on to the address that was signed with them, and to no other; and the picture of
 * tracked opens. Both answer at once, whatever the database does.
 */
export async function trackedRoutes(app: App): Promise<void> {
  const { hits, clock } = app.context;
  const read = tokenReader(app);
  await app.fastify.register((scope, _options, done) => {
    // Whatever the content type: browsers choose one for what they send by the way.
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, _body, done) => done(null, undefined));

    scope.get('/t/c/:token', hidden('followLink'), async (request, reply) => {
      const target = targetOf(request);
      const delivery = await read(request, reply, 'c', target);
      if (delivery === undefined || !isWeb(target)) return sendPage(reply, 404, NOT_FOUND);
      if (isMeant(request)) hits.note({ ...delivery, kind: 'click', url: target, atMs: clock.now() });
      return reply.code(302).headers(HEADERS).header('location', target).send();
    });

    // A push has no page to lead to: its service worker tells of the click.
    scope.post('/t/c/:token', hidden('tellClick'), async (request, reply) => {
      const target = targetOf(request);
      const delivery = await read(request, reply, 'c', target);
      if (delivery === undefined) return sendPage(reply, 404, NOT_FOUND);
      const url = target === '' ? {} : { url: target };
      hits.note({ ...delivery, kind: 'click', ...url, atMs: clock.now() });
      return reply.code(204).headers(HEADERS).send();
    });

    scope.get('/t/o/:token', hidden('loadPicture'), (request, reply) => {
      // The picture does not wait for it, and is the same for whoever asks.
      read(request, reply, 'o', '').then(
        (delivery) => {
          if (delivery !== undefined && isMeant(request))
            hits.note({ ...delivery, kind: 'open', atMs: clock.now() });
        },
        () => {}, // too many strangers, or no database to ask for the key: nothing to record
      );
      return reply.headers(HEADERS).header('content-type', 'image/gif').send(PICTURE);
    });
    done();
  });
}

/** Not in the description, and its addresses not in the log: whoever has one is taken for the recipient. */
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
 * Reads which delivery a request is about; undefined where that, with the target, was not signed here.
 *
 * Who has a signed link is not counted against the limit of its address: all of an office may come from one,
 * and a signature is looked at in 5 µs. Who has none is, and where that was too often no database is asked
 * for a project's key.
 */
function tokenReader({ context, limits }: App): Reader {
  return async (request, reply, kind, target) => {
    const given = (request.params as { token: string }).token.replace(PICTURE_END, '');
    const token = readTrackedToken(given);
    const found = token && context.projects.linkKeys(token.projectId);
    if (found instanceof Promise) limits.heldUp(request, reply);
    const signers = await found;
    if (token === undefined || !signers?.some(({ key }) => token.isSigned(key, kind, target))) {
      await limits.stranger(request, reply);
      return undefined;
    }
    const { projectId, broadcastId, userId, channel } = token;
    return { projectId, broadcastId, userId, channel };
  };
}

const NOT_FOUND = {
  title: 'This link does not work',
  text: 'It is not complete, or was changed on its way. Please open it from the message again, or copy all of it.',
};

const HEADERS = {
  'cache-control': 'no-store',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-robots-tag': 'noindex',
};

const PICTURE_END = /\.gif$/;
/** One transparent pixel. */
const PICTURE = Buffer.from('R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7', 'base64');

/** The address that a link leads to; empty where it has none, or several. */
function targetOf({ query }: FastifyRequest): string {
  const { u } = query as { u?: unknown };
  return typeof u === 'string' ? u : '';
}

/** Signed addresses are no others; this is said once more where it counts. */
function isWeb(target: string): boolean {
  const url = URL.parse(target);
  return url !== null && /^https?:$/.test(url.protocol) && url.href === target;
}

/** False for who only looks whether it is there, or loads it in case that somebody wants it. */
function isMeant({ method, headers }: FastifyRequest): boolean {
  if (method === 'HEAD') return false;
  const purposes = [headers['sec-purpose'], headers.purpose, headers['x-purpose'], headers['x-moz']];
  return !purposes.some((purpose) => /prefetch|prerender|preview/i.test(String(purpose)));
}
