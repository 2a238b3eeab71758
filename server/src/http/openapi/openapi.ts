import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import fastifySwagger from '@fastify/swagger';
import type { FastifyInstance } from 'fastify';
import { Errors } from '../../contract/common.ts';
import { COMMAND_INPUTS } from '../../contract/workflow.ts';
import { allErrors, ClientError, type ErrorCode } from '../../errors.ts';
import { acceptsGzip } from '../accept.ts';
import type { Api } from '../api.ts';
import { V1_DESCRIPTION } from '../v1/description.ts';
import { exampleOf } from './examples.ts';
import { referByTitle, type Schema } from './schemas.ts';
import { describeEvents, WEBHOOK_HEADERS, webhookMessages } from './webhooks.ts';

/** The descriptions of both versions of the API, as methods of the server. */
const DECORATORS = { v2: 'swagger', v1: 'swaggerV1' } as const;

declare module 'fastify' {
  interface FastifyInstance {
    swaggerV1: FastifyInstance['swagger'];
  }
}

/** Collects the descriptions of all routes that are registered after it, one for each version of the API. */
export async function describeRoutes(fastify: FastifyInstance): Promise<void> {
  await describeVersion(fastify, 'v2', {
    info: { title: 'Belfry', version: '2.0.0', description: DESCRIPTION },
    servers: [{ url: '/v2' }], // relative: the document is the same wherever the server runs
    tags: TAGS,
    securitySchemes: {
      ProjectJWT: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT', description: PROJECT_JWT },
      UserJWT: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT', description: USER_JWT },
    },
  });
  await describeVersion(fastify, 'v1', V1_DESCRIPTION);
}

async function describeVersion(
  fastify: FastifyInstance,
  version: Api['version'],
  { info, servers, tags, securitySchemes }: Description,
): Promise<void> {
  await fastify.register(fastifySwagger, {
    decorator: DECORATORS[version],
    openapi: {
      openapi: '3.1.0',
      info: { ...info, license: { name: 'MIT', identifier: 'MIT' } },
      servers,
      tags,
      components: { securitySchemes, responses: errorResponses() },
    },
    transform({ schema, url, route }) {
      const isOther = route.config?.api?.version !== version;
      return { schema: isOther ? { ...schema, hide: true } : schema, url };
    },
    transformObject: (document) =>
      described('openapiObject' in document ? document.openapiObject : {}, version),
  });
}

/** Serves the description of each version as JSON. */
export function serveDescriptions(fastify: FastifyInstance, apis: readonly Api[]): void {
  for (const api of apis) {
    // As bytes, which all responses share. Each would hold a copy of a string until its client has read it.
    const describe = () => Buffer.from(JSON.stringify(fastify[DECORATORS[api.version]]()));
    let text: Buffer | undefined;
    let compressed: Promise<Buffer> | undefined;
    fastify.get(
      `/${api.version}/openapi.json`,
      { config: { api }, schema: { hide: true } },
      async (request, reply) => {
        text ??= describe();
        reply
          .header('content-type', 'application/json; charset=utf-8')
          .header('cache-control', 'no-cache')
          .header('vary', 'accept-encoding');
        if (!acceptsGzip(request)) return reply.send(text);
        compressed ??= promisify(gzip)(text);
        return reply.header('content-encoding', 'gzip').send(await compressed);
      },
    );
  }
}

interface Description {
  info: { title: string; version: string; description: string };
  servers: { url: string }[];
  tags: { name: string; description: string }[];
  securitySchemes: Record<
    string,
    { description: string } & (
      | { type: 'http'; scheme: 'bearer'; bearerFormat: 'JWT' }
      | { type: 'apiKey'; in: 'header'; name: string }
    )
  >;
}

const DESCRIPTION = `Send a notification to up to 1000 users with one request: to their inbox, by e-mail and
on other channels.

Every error is \`{"errors": [{"code", "message"}]}\` and lists all problems of the request.

Lists are newest first. A page has up to \`limit\` records: 50 if you omit it, at most 100. The parameter
\`starting_after\` selects the page after the record with this id, and \`ending_before\` the page before it.
The \`links\` of a page have the addresses of both.

With a Project JWT, the body of a request has at most 1 MiB and 10,000 keys and values. With a User JWT, it
has 64 KiB and 500. Some operations differ: broadcasts and imports may be longer. A body that is too long is a
413. A project can have 500 integrations, 1,000 categories, 1,000 templates, 1,000 workflows and 50 webhooks.
A user can subscribe to 10,000 topics and save 100 installations. One more is a 422.

Responses say how many requests per minute you may make (\`RateLimit-Limit\`), how many are left
(\`RateLimit-Remaining\`), and in how many seconds the next one is available (\`RateLimit-Reset\`). Browsers
may call the API from every origin, because no credential is a cookie.

Every POST that changes something accepts an \`Idempotency-Key\`. For 24 hours, a request with the same key
and body gets the stored response of the first one, with the header \`Idempotency-Replayed: true\`. 2xx and
4xx responses are stored, except 401, 403, 429 and rejected bodies (422), so that you can correct a request
under the same key. While the first request runs, the second one waits for its response. The same key with
another body is a 409.

The deprecated [version 1](/docs/v1) is still served.`;
const PROJECT_JWT =
  'Authenticates your server for the whole project. Create it with `belfry token issue` and keep it on ' +
  'your servers.';
const USER_JWT =
  'Authenticates one user. Your server signs it with HS256 and the API secret of the project. Claims: ' +
  '`api_key`, and `user_external_id` or `user_email`; if it has both, the external id decides. ' +
  '`user_external_id` may be a whole number; all others are strings. A claim that is `null`, blank, too ' +
  'long or of another type is a 401 that names the claim.';

const DIALECT = 'http://json-schema.org/draft-07/schema#'; // the contract's

const TAGS = [
  { name: 'Broadcasts', description: 'One message to many users.' },
  { name: 'Notifications', description: 'The inbox of a user.' },
  { name: 'Channel tokens', description: 'The devices, browsers, chats and inboxes of a user.' },
  { name: 'Integrations', description: 'The providers that a project sends with.' },
  { name: 'Installations', description: 'How users connect a chat workspace, a browser or an inbox.' },
  { name: 'Category delivery', description: 'The channels, delays and conditions of a category.' },
  { name: 'Delivery windows', description: 'The hours in which messages may be sent.' },
  { name: 'Tracking', description: 'Whether opens and clicks are recorded.' },
  { name: 'Preferences', description: 'The categories and channels that a user wants.' },
  { name: 'Topics', description: 'The topics that a user subscribes to.' },
  { name: 'Project', description: 'The project itself.' },
  { name: 'Users', description: 'The people that a project notifies.' },
  { name: 'Suppressions', description: 'Addresses that get no messages.' },
  { name: 'Events', description: 'The record of everything that happens in a project.' },
  { name: 'Webhooks', description: 'Sends events to your servers.' },
  { name: 'Workflows', description: 'Stored lists of steps, and their runs.' },
  { name: 'Templates', description: 'The texts of notifications, by channel and language.' },
];

/** The key under which a route's schema lists errors that do not follow from the rest. Not published. */
export const OWN_ERRORS = 'x-errors';

interface Operation {
  [OWN_ERRORS]?: readonly ErrorCode[];
  deprecated?: boolean;
  description?: string;
  security?: Record<string, string[]>[];
  parameters?: { in: string; name?: string; schema?: Schema }[];
  requestBody?: Described;
  responses: Record<string, Described | { $ref: string }>;
}

/** A request or a response with its body. */
interface Described {
  required?: boolean;
  content?: Record<string, { schema?: Schema; example?: unknown; examples?: unknown }>;
}

function errorResponses() {
  const responses: Record<string, { description: string; content: Record<string, object> }> = {};
  const schema = JSON.parse(JSON.stringify(Errors)) as Schema;
  for (const { status, codes } of byStatus()) {
    const examples = Object.fromEntries(
      codes.map(({ code, message }) => [code, { value: { errors: [{ code, message }] } }]),
    );
    responses[`Error${status}`] = {
      description: codes.map(({ code, message }) => `\`${code}\`: ${message}.`).join(' '),
      content: { 'application/json': { schema, examples } },
    };
  }
  return responses;
}

function byStatus(): { status: number; codes: { code: ErrorCode; message: string }[] }[] {
  return [...Map.groupBy(allErrors(), ({ status }) => status)].map(([status, codes]) => ({ status, codes }));
}

/**
 * Completes the document: the dialect of JSON Schema, the callers, errors and examples of each operation, the
 * Idempotency-Key of every POST, and the named schemas.
 */
function described<Document extends ApiDocument>(document: Document, version: Api['version']): Document {
  const errors = new Set<string>();
  for (const methods of Object.values(document.paths ?? {})) {
    for (const [method, operation] of Object.entries(methods as Record<string, Operation>)) {
      for (const status of statusesOf(method, operation)) {
        operation.responses[status] ??= { $ref: `#/components/responses/Error${status}` };
        errors.add(`Error${status}`);
      }
      delete operation[OWN_ERRORS];
      if (version === 'v1') operation.deprecated = true;
      if (operation.requestBody !== undefined) markOptional(operation.requestBody);
      showExamples(operation);
      operation.description = `${operation.description} ${callerOf(operation)}`;
      const authenticated = (operation.security ?? []).length > 0;
      if (method === 'post' && authenticated)
        operation.parameters = [...(operation.parameters ?? []), IDEMPOTENCY_KEY];
    }
  }
  if (version === 'v2') {
    document.webhooks = webhookMessages();
    document.components = { ...document.components, parameters: WEBHOOK_HEADERS };
  }
  // Others are of wrong methods, of /graphql, and of requests that reach no route.
  const responses = Object.entries(document.components?.responses ?? {}).filter(([name]) => errors.has(name));
  document.components = { ...document.components, responses: Object.fromEntries(responses) };
  const definitions = nameSchemas(document);
  if (version === 'v2') {
    describeInputs(definitions);
    describeEvents(definitions);
  }
  document.components = { ...document.components, schemas: sorted(definitions) };
  return { openapi: document.openapi, jsonSchemaDialect: DIALECT, ...document };
}

interface ApiDocument {
  openapi?: string;
  paths?: object;
  webhooks?: object;
  components?: { schemas?: object; parameters?: object; responses?: Record<string, unknown> };
}

/** Replaces every schema with a title by a reference. Returns the definitions. */
function nameSchemas(document: ApiDocument): Record<string, Schema> {
  const definitions: Record<string, Schema> = {};
  const refer = (parts: readonly { schema?: Schema }[]) => {
    for (const part of parts) if (part.schema) part.schema = referByTitle(part.schema, definitions);
  };
  const operations = Object.values<object>({ ...document.paths, ...document.webhooks }).flatMap((methods) =>
    Object.values<Operation>({ ...methods }),
  );
  for (const { parameters = [], requestBody, responses } of operations) {
    refer(parameters);
    for (const part of [requestBody ?? {}, ...Object.values(responses)])
      if ('content' in part) refer(Object.values(part.content ?? {}));
  }
  for (const { content = {} } of Object.values(document.components?.responses ?? {}) as Described[])
    refer(Object.values(content));
  return definitions;
}

/** Adds the inputs of workflow commands, of which the input of a step is one. */
function describeInputs(definitions: Record<string, Schema>): void {
  const inputs: Record<string, Schema> = {};
  const references = Object.values(COMMAND_INPUTS).map((schema) =>
    referByTitle(JSON.parse(JSON.stringify(schema)) as Schema, inputs),
  );
  // The schemas of operations are as the library has written them.
  for (const [title, schema] of Object.entries(inputs)) definitions[title] ??= schema;
  const input = definitions.WorkflowStep?.properties?.input;
  if (input === undefined) throw new Error('a step of a workflow has no input');
  input.anyOf = [...references, { type: 'object', additionalProperties: {} }, { type: 'null' }];
  delete input.type;
  delete input.additionalProperties;
}

function sorted(definitions: Record<string, Schema>): Record<string, Schema> {
  return Object.fromEntries(Object.entries(definitions).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** A body that may be `null` is optional. */
function markOptional(body: Described): void {
  const schema = body.content?.['application/json']?.schema;
  if (!Array.isArray(schema?.type) || !schema.type.includes('null')) return;
  const [type = 'object', ...others] = schema.type.filter((one) => one !== 'null');
  schema.type = others.length === 0 ? type : [type, ...others];
  body.required = false;
}

// By the first scheme that an operation has.
const NEEDS = {
  APISecret: 'Requires the API key and the API secret.',
  UserHMAC: 'Requires the API key and a user.',
  ProjectJWT: 'Requires a Project JWT.',
  UserJWT: 'Requires a User JWT.',
};

function callerOf({ security = [] }: Operation): string {
  const needs = Object.entries(NEEDS).find(([scheme]) => security.some((choice) => scheme in choice));
  return needs === undefined ? 'Requires no token.' : needs[1];
}

/** Adds an example for every schema without one. */
function showExamples({ requestBody, responses }: Operation): void {
  for (const part of [requestBody ?? {}, ...Object.values(responses)]) {
    const json = 'content' in part ? part.content?.['application/json'] : undefined;
    if (json?.schema === undefined || json.example !== undefined || json.examples !== undefined) continue;
    const example = exampleOf(json.schema);
    if (example !== undefined) json.example = example;
  }
}

function statusesOf(method: string, operation: Operation): number[] {
  const { security = [], parameters = [], requestBody, [OWN_ERRORS]: own } = operation;
  const statuses = [429, 500, 503];
  if (own !== undefined) statuses.unshift(...own.map((code) => new ClientError(code).status));
  if (own !== undefined && security.length === 0) return statuses;
  if (security.length > 0) statuses.unshift(401, 403);
  if (requestBody !== undefined) statuses.unshift(400, 413, 415, 422);
  if (parameters.some((parameter) => parameter.in === 'path')) statuses.unshift(400);
  if (parameters.some((parameter) => parameter.in === 'path' || parameter.name === 'id'))
    statuses.unshift(404);
  if (parameters.some((parameter) => parameter.in === 'query')) statuses.unshift(422);
  if (method === 'post' && security.length > 0) statuses.unshift(409, 422);
  return statuses;
}

const IDEMPOTENCY_KEY = {
  in: 'header',
  name: 'Idempotency-Key',
  required: false,
  description:
    'A unique string of your choice for each new request, such as a UUID. Requests with the same key and ' +
    'body within 24 hours have one effect and get the same response.',
  schema: { type: 'string', minLength: 1, maxLength: 255 },
};
