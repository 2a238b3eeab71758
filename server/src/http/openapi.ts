import fastifySwagger from '@fastify/swagger';
import fastifySwaggerUi from '@fastify/swagger-ui';
import type { FastifyInstance } from 'fastify';
import { Errors } from '../contract/common.ts';
import { allErrors, ClientError, type ErrorCode } from '../errors.ts';
import { exampleOf } from './examples.ts';
import { referByTitle, type Schema } from './openapi-schemas.ts';

/** Collects the description of every route that is registered after it. */
export async function describeRoutes(fastify: FastifyInstance, prefix: string): Promise<void> {
  await fastify.register(fastifySwagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Belfry',
        version: '2.0.0',
        description: DESCRIPTION,
        license: { name: 'MIT', identifier: 'MIT' },
      },
      servers: [{ url: prefix }], // relative: the document is the same wherever the server runs
      tags: TAGS,
      components: {
        securitySchemes: {
          ProjectJWT: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT', description: PROJECT_JWT },
          UserJWT: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT', description: USER_JWT },
        },
        responses: errorResponses(),
      },
    },
    transformObject: (document) => described('openapiObject' in document ? document.openapiObject : {}),
  });
}

/** Serves the description as JSON, and as a page to read and try it. */
export async function serveDescription(fastify: FastifyInstance, prefix: string): Promise<void> {
  let text: string | undefined;
  fastify.get(`${prefix}/openapi.json`, { schema: { hide: true } }, (_request, reply) => {
    text ??= JSON.stringify(fastify.swagger());
    return reply
      .header('content-type', 'application/json; charset=utf-8')
      .header('cache-control', 'no-cache')
      .send(text);
  });
  await fastify.register(fastifySwaggerUi, {
    routePrefix: '/docs',
    // The page's component calls any dialect but OpenAPI's own an error, in red.
    transformSpecification: ({ jsonSchemaDialect: _, ...document }: { jsonSchemaDialect?: unknown }) =>
      document,
    uiConfig: {
      layout: 'BaseLayout', // without the component's own bar and logo
      deepLinking: true,
      docExpansion: 'list',
      tryItOutEnabled: true,
    },
    theme: { title: 'Belfry API' },
    staticCSP: {
      'default-src': "'none'",
      'base-uri': "'none'",
      'connect-src': "'self'",
      'font-src': "'self'",
      'form-action': "'none'",
      'frame-ancestors': "'none'",
      'img-src': ["'self'", 'data:'],
      'script-src': "'self'",
      'style-src': ["'self'", "'unsafe-inline'"], // the page's component sets styles on its elements
    },
  });
}

const DESCRIPTION = `Send a notification to up to 1000 users through their inbox, e-mail and other channels with one request.

Every answer that is not a success is \`{"errors": [{"code", "message"}]}\` and names all problems. Lists are newest first, and page with
\`starting_after\` and \`ending_before\`. Every POST may carry an \`Idempotency-Key\`:
a request with the same key and body gets the stored response of the first one for 24 hours, with \`Idempotency-Replayed: true\`. Stored are 2xx and
4xx responses of the operation; not 401, 403, 429, 5xx and problems with the body (422), so that a corrected request may have the same key. A concurrent request
with the same key waits for the response of the first; the same key with another body is a 409.`;
const PROJECT_JWT = 'Speaks for the whole project. Made with `belfry token issue`; keep it on your servers.';
const USER_JWT =
  "Speaks for one user. Made by your server: HS256 with the project's API secret, claims `api_key`, and `user_external_id` or `user_email`; with both, the external id decides. A claim that is there but unusable (`null`, blank, too long, not a text) is a 401 that names it.";

const DIALECT = 'http://json-schema.org/draft-07/schema#'; // the contract's

const TAGS = [
  { name: 'Broadcasts', description: 'One message to many users.' },
  { name: 'Notifications', description: "What a user received: the inbox's list and states." },
  { name: 'Channel tokens', description: 'Where a user can be reached.' },
  { name: 'Integrations', description: 'The providers that a project sends through.' },
  { name: 'Installations', description: 'How users connect their workspace, their browser and their inbox.' },
  {
    name: 'Category delivery',
    description: 'Over which channels the notifications of a category go out, and when.',
  },
  {
    name: 'Delivery windows',
    description: 'At what times messages may come; at others they wait.',
  },
  { name: 'Tracking', description: 'Whether opens and clicks are recorded.' },
  { name: 'Preferences', description: 'What a user wants to get, and where.' },
  { name: 'Topics', description: 'What users subscribe to.' },
  { name: 'Users', description: 'Who can be reached.' },
  { name: 'Suppressions', description: 'Addresses that nothing is sent to.' },
  { name: 'Events', description: 'What happened.' },
  { name: 'Webhooks', description: 'Where events are sent to as they happen.' },
];

/** Where a route's schema names the errors that do not follow from the rest of it; not published itself. */
export const OWN_ERRORS = 'x-errors';

interface Operation {
  [OWN_ERRORS]?: readonly ErrorCode[];
  security?: Record<string, string[]>[];
  parameters?: { in: string; name?: string; schema?: Schema }[];
  requestBody?: Described;
  responses: Record<string, Described | { $ref: string }>;
}

/** A request or an answer with its body. */
interface Described {
  required?: boolean;
  content?: Record<string, { schema?: Schema; example?: unknown; examples?: unknown }>;
}

function errorResponses() {
  const responses: Record<string, { description: string; content: Record<string, object> }> = {};
  const schema = JSON.parse(JSON.stringify(Errors)) as Schema;
  for (const { status, codes } of byStatus().filter((one) => !OF_NO_OPERATION.includes(one.status))) {
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

// Of a path's other methods, and of requests that reach no route.
const OF_NO_OPERATION = [405, 417];

function byStatus(): { status: number; codes: { code: ErrorCode; message: string }[] }[] {
  return [...Map.groupBy(allErrors(), ({ status }) => status)].map(([status, codes]) => ({ status, codes }));
}

/**
 * Says which JSON Schema is meant, and adds to each operation the errors that it can answer and the header
 * that every POST understands.
 */
function described<Document extends ApiDocument>(document: Document): Document {
  for (const methods of Object.values(document.paths ?? {})) {
    for (const [method, operation] of Object.entries(methods as Record<string, Operation>)) {
      for (const status of statusesOf(method, operation)) {
        operation.responses[status] ??= { $ref: `#/components/responses/Error${status}` };
      }
      delete operation[OWN_ERRORS];
      if (operation.requestBody !== undefined) sayWhetherNeeded(operation.requestBody);
      showExamples(operation);
      const authenticated = (operation.security ?? []).length > 0;
      if (method === 'post' && authenticated)
        operation.parameters = [...(operation.parameters ?? []), IDEMPOTENCY_KEY];
    }
  }
  nameSchemas(document);
  return { openapi: document.openapi, jsonSchemaDialect: DIALECT, ...document };
}

interface ApiDocument {
  openapi?: string;
  paths?: object;
  components?: { schemas?: object; responses?: Record<string, unknown> };
}

/** Gives every schema with a title one place in the document, and refers to it everywhere else. */
function nameSchemas(document: ApiDocument): void {
  const definitions: Record<string, Schema> = {};
  const refer = (parts: readonly { schema?: Schema }[]) => {
    for (const part of parts) if (part.schema) part.schema = referByTitle(part.schema, definitions);
  };
  const operations = Object.values(document.paths ?? {}).flatMap((methods) =>
    Object.values<Operation>(methods),
  );
  for (const { parameters = [], requestBody, responses } of operations) {
    refer(parameters);
    for (const part of [requestBody ?? {}, ...Object.values(responses)])
      if ('content' in part) refer(Object.values(part.content ?? {}));
  }
  for (const { content = {} } of Object.values(document.components?.responses ?? {}) as Described[])
    refer(Object.values(content));
  const sorted = Object.entries(definitions).sort(([a], [b]) => (a < b ? -1 : 1));
  document.components = { ...document.components, schemas: Object.fromEntries(sorted) };
}

/** A body that may be `null` is one that need not be sent. */
function sayWhetherNeeded(body: Described): void {
  const schema = body.content?.['application/json']?.schema;
  if (!Array.isArray(schema?.type) || !schema.type.includes('null')) return;
  const [type = 'object', ...others] = schema.type.filter((one) => one !== 'null');
  schema.type = others.length === 0 ? type : [type, ...others];
  body.required = false;
}

/** An example beside every schema that has none. */
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
  if (own !== undefined) return [...own.map((code) => new ClientError(code).status), ...statuses];
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
    'Any text that is new for a new request; a UUID is a good choice. Requests with the same key and body within 24 hours get one response, and have one effect.',
  schema: { type: 'string', minLength: 1, maxLength: 255 },
};
