import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { PRIVATE } from '../pages/page.ts';
import type { App } from '../route.ts';

/** Registers the files of the page. The page itself is a response of `/graphql`. */
export function graphiqlRoutes({ fastify, api, limits }: App, introspection: () => Promise<string>): void {
  const files = {
    'graphiql.js': { type: 'text/javascript; charset=utf-8', text: async () => stored('graphiql.js.gz') },
    'graphiql.css': { type: 'text/css; charset=utf-8', text: async () => stored('graphiql.css.gz') },
    'schema.json': {
      type: 'application/json; charset=utf-8',
      text: introspection,
    },
  };
  for (const [name, { type, text }] of Object.entries(files)) {
    let body: string | Buffer | undefined;
    fastify.get(
      `/graphql/${name}`,
      { schema: { hide: true }, config: { api, operationId: 'graphiql' } },
      async (request, reply) => {
        await limits.stranger(request, reply);
        body ??= await text();
        if (typeof body !== 'string') reply.header('content-encoding', 'gzip');
        return reply.header('content-type', type).header('cache-control', 'max-age=3600').send(body);
      },
    );
  }
}

function stored(name: string): Buffer {
  return readFileSync(new URL(`./graphiql/${name}`, import.meta.url));
}

/** Whether a browser requests the page: not a query, and HTML rather than JSON. */
export function wantsPage({ method, query, headers }: FastifyRequest): boolean {
  const { accept = '' } = headers;
  const isQuery = typeof query === 'object' && query !== null && 'query' in query;
  return method === 'GET' && !isQuery && accept.includes('text/html') && !accept.includes('json');
}

/** Responds with GraphiQL, which works without other hosts. */
export function sendGraphiql(reply: FastifyReply): FastifyReply {
  return reply.headers(HEADERS).send(PAGE);
}

// Without a credential the schema comes from its file, so that the page works before headers are entered.
const START = `
const url = location.pathname.replace(/\\/$/, '');
async function fetcher(params, { headers } = {}) {
  const isSchema = params.operationName === 'IntrospectionQuery';
  const response = await (isSchema
    ? fetch(url + '/schema.json')
    : fetch(url, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body: JSON.stringify(params),
      }));
  return response.json();
}
ReactDOM.createRoot(document.getElementById('graphiql')).render(
  React.createElement(GraphiQL, {
    fetcher,
    defaultEditorToolsVisibility: 'headers',
    defaultHeaders: '{\\n  "Authorization": "Bearer <User JWT or Project JWT>"\\n}',
    defaultQuery: '{\\n  notifications(first: 10) {\\n    totalCount\\n' +
      '    nodes {\\n      id\\n      title\\n    }\\n  }\\n}',
    shouldPersistHeaders: false,
  }),
);
`;

const PAGE =
  '<!doctype html><html lang="en"><head><meta charset="utf-8">' +
  '<meta name="viewport" content="width=device-width, initial-scale=1"><title>GraphiQL</title>' +
  '<link rel="stylesheet" href="/graphql/graphiql.css"></head>' +
  '<body style="margin: 0"><div id="graphiql" style="height: 100vh">' +
  '<noscript>GraphiQL needs JavaScript.</noscript></div>' +
  `<script src="/graphql/graphiql.js"></script><script>${START}</script></body></html>\n`;

const START_HASH = createHash('sha256').update(START).digest('base64');

const HEADERS = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy':
    `default-src 'none'; script-src 'self' 'sha256-${START_HASH}'; ` +
    "style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'", // the page sets styles on its elements
  'cache-control': 'no-store',
  ...PRIVATE,
};
