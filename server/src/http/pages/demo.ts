import { fileURLToPath } from 'node:url';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Config } from '../../config.ts';
import { createProject, DEMO_PROJECT } from '../../domain/setup/projects/create.ts';
import { findProject } from '../../domain/setup/projects/find.ts';
import { issueToken } from '../../domain/setup/projects/tokens.ts';
import { apiSecretOf, signUserToken } from '../../domain/setup/projects/user-token.ts';
import { ClientError } from '../../errors.ts';
import type { HttpContext } from '../context.ts';
import type { App } from '../route.ts';
import { serveBrowserCode } from './browser-code.ts';
import { ICON_LINK } from './icons.ts';
import { escaped, PRIVATE } from './page.ts';

const SOURCE = [
  new URL('../../../../inbox/demo/demo.ts', import.meta.url),
  new URL('../../../../inbox/demo/demo.css', import.meta.url),
].map((url) => fileURLToPath(url));
const SESSION_MS = 12 * 3_600_000;
const RENEW_MS = SESSION_MS / 2;
const USERS = [
  { external_id: 'ada', name: 'Ada' },
  { external_id: 'ben', name: 'Ben' },
];

/** What the page needs to call the API. */
interface Session {
  project_jwt: string;
  users: { external_id: string; name: string; user_jwt: string }[];
}

/**
 * `/demo`: two inboxes, and a form that sends to them. The page uses the public API, as users of a project
 * `demo`, so what it does concerns no other project.
 */
export function demoPage(app: App): void {
  const { fastify, context, limits } = app;
  if (!hasDemo(context.config)) return;
  const code = serveBrowserCode(app, { prefix: '/demo', entries: SOURCE });
  const session = sessions(context);

  fastify.get(
    '/demo',
    { schema: { hide: true }, config: { operationId: 'demo' } },
    async (request, reply) => {
      await limits.stranger(request, reply);
      rejectOtherHosts(context, request);
      const [script = '', style = ''] = await code();
      return sendDemo(reply, { script, style });
    },
  );

  // A POST, so that browsers name the origin. Its response has credentials.
  fastify.post(
    '/demo/session',
    { schema: { hide: true }, config: { operationId: 'demoSession' } },
    async (request, reply) => {
      await limits.stranger(request, reply);
      rejectOtherHosts(context, request);
      const { origin, host } = request.headers;
      if (origin !== undefined && origin.replace(/^https?:\/\//, '') !== host)
        throw new ClientError('forbidden', ['The demo is for its own page']);
      reply.removeHeader('access-control-allow-origin');
      return session();
    },
  );
}

/**
 * A server that has a public address, or that others can reach, has the page only if its operator says so.
 */
export function hasDemo({ DEMO, HOST, PUBLIC_URL }: Config): boolean {
  return DEMO ?? (PUBLIC_URL === undefined && isLoopback(HOST));
}

const isLoopback = (host: string) => /^(?:localhost|127(?:\.\d{1,3}){3}|::1|\[::1\])$/i.test(host);

/** A page of another site cannot read the demo through a name that leads to this machine. */
function rejectOtherHosts({ config }: HttpContext, { headers }: FastifyRequest): void {
  const host = (headers.host ?? '').replace(/:\d+$/, '');
  if (config.DEMO === undefined && !isLoopback(host))
    throw new ClientError('forbidden', ['The demo is at a loopback address, unless DEMO is on']);
}

/** Returns a function that resolves to the credentials of the demo, which are issued again in time. */
function sessions(context: HttpContext): () => Promise<Session> {
  let issued: { session: Promise<Session>; atMs: number } | undefined;
  return () => {
    const nowMs = context.clock.now();
    if (issued === undefined || nowMs > issued.atMs + RENEW_MS) {
      const session = issueSession(context, new Date(nowMs + SESSION_MS));
      issued = { session, atMs: nowMs };
      session.catch(() => {
        issued = undefined;
      });
    }
    return issued.session;
  };
}

async function issueSession(context: HttpContext, expiresAt: Date): Promise<Session> {
  await createProject(context, DEMO_PROJECT); // does nothing if it exists
  const project = await findProject(context, DEMO_PROJECT);
  if (project === undefined) throw new ClientError('not_found', ['The project demo does not exist']);
  const { id: projectId, apiKey } = project;
  const [token, apiSecret] = await Promise.all([
    issueToken(context, { projectId, name: 'the page /demo', expiresAt }),
    apiSecretOf(context, projectId),
  ]);
  const users = await Promise.all(
    USERS.map(async (user) => {
      const claims = { apiKey, apiSecret, externalId: user.external_id, expiresAt };
      return { ...user, user_jwt: await signUserToken(context, claims) };
    }),
  );
  return { project_jwt: token?.token ?? '', users };
}

function sendDemo(reply: FastifyReply, { script, style }: { script: string; style: string }): FastifyReply {
  const html =
    '<!doctype html><html lang="en"><head><meta charset="utf-8">' +
    '<meta name="viewport" content="width=device-width, initial-scale=1"><title>Belfry demo</title>' +
    ICON_LINK +
    `<link rel="stylesheet" href="${escaped(style)}">` +
    `<script type="module" src="${escaped(script)}"></script></head>` +
    '<body><noscript>The demo needs JavaScript.</noscript></body></html>\n';
  return reply.headers(HEADERS).send(html);
}

const HEADERS = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src * data:; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
  'cache-control': 'no-store',
  ...PRIVATE,
};
