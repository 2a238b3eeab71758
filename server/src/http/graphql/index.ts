import type { FastifyReply, FastifyRequest } from 'fastify';
import type { GraphQLFormattedError } from 'graphql';
import { ClientError, type Problem } from '../../errors.ts';
import { loadOnce } from '../../lib/load-once.ts';
import type { Api } from '../api.ts';
import type { Every } from '../realtime/pending.ts';
import { GRAPHQL_PATH } from '../realtime/socket.ts';
import { WebSockets } from '../realtime/web-sockets.ts';
import type { App } from '../route.ts';
import { graphiqlRoutes, sendGraphiql, wantsPage } from './graphiql.ts';
import type { GraphqlServer } from './server.ts';

// As many keys and values as a user may save in preferences.
const BODY_LIMITS = { bytes: 1024 * 1024, keysAndValues: 10_000, levels: 100 };
// A query with its variables.
const MAX_INCOMING_BYTES = 64 * 1024;
const PROTOCOL = 'graphql-transport-ws';

/** The credentials, limits and headers of an API, with the errors of GraphQL. */
export function graphqlApi(api: Api): Api {
  return { ...api, errorBody: graphqlErrors };
}

/** The body of a response to a request that was not executed. */
function graphqlErrors({ problems }: ClientError): { errors: GraphQLFormattedError[] } {
  return { errors: problems.map(withCode) };
}

function withCode({ message, ...extensions }: Problem): GraphQLFormattedError {
  return { message, extensions };
}

/** Serves queries and mutations at `/graphql`, subscriptions by WebSocket, and GraphiQL to browsers. */
export function graphqlRoute(app: App): void {
  // Loaded for the first request, because many nodes never get one.
  const load = loadOnce(async (): Promise<GraphqlServer> => {
    const { createGraphqlServer } = await import('./server.ts');
    return createGraphqlServer(app);
  });
  const sockets = graphqlSockets(app, load);
  graphiqlRoutes(app, async () => (await load()).introspection());
  app.fastify.addHook('preClose', () => sockets.close());
  app.fastify.route({
    method: ['GET', 'POST'],
    url: `${app.api.prefix}/graphql`,
    bodyLimit: BODY_LIMITS.bytes,
    config: {
      api: app.api,
      operationId: 'graphql',
      limits: { keysAndValues: BODY_LIMITS.keysAndValues, inMember: 0, levels: BODY_LIMITS.levels },
      userBodyBytes: app.api.limits.bodies.user.bytes,
    },
    schema: { hide: true }, // the schema describes it
    onRequest: async (request, reply) => {
      if (!wantsPage(request)) return authenticate(app, request, reply);
      await app.limits.stranger(request, reply);
      return sendGraphiql(reply);
    },
    async handler(request, reply) {
      request.heldBody?.hold();
      try {
        const { respond } = await load();
        return await respond(request, reply);
      } finally {
        request.heldBody?.release();
      }
    },
  });
}

type SocketApp = Pick<App, 'context' | 'limits'> & { fastify: Pick<App['fastify'], 'server'> };

/** The WebSockets at `/graphql`, with the protocol `graphql-transport-ws`: subscriptions alone. */
export function graphqlSockets(
  { fastify: { server }, context: { log }, limits }: SocketApp,
  load: () => Promise<Pick<GraphqlServer, 'open'>>,
  every?: Every,
): Pick<WebSockets<unknown>, 'close'> {
  return new WebSockets(
    { server, log, onRefused: (request) => limits.refusedSocket(request), every },
    {
      serves: (path) => path === GRAPHQL_PATH,
      maxIncomingBytes: MAX_INCOMING_BYTES,
      handleProtocols: (offered) => offered.has(PROTOCOL) && PROTOCOL,
      // The credential is in the first message.
      admit: async (request) => ({ graphql: await load(), request }),
      open: (socket, { graphql, request }) => graphql.open(socket, request),
    },
  );
}

async function authenticate(
  { api, limits }: App,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<void> {
  reply.headers(api.headers);
  try {
    request.caller = await api.authenticate(request.headers);
  } catch (error) {
    if (error instanceof ClientError) await limits.stranger(request, reply);
    throw error;
  }
}
