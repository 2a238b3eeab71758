import { describe, expect, test } from 'vitest';
import type { ApiDocument, RawOperation, Schema } from '../../../sdk/generator/document.ts';
import { sdkFiles } from '../../../sdk/generator/files.ts';

const text: Schema = { type: 'string' };
const object = (properties: Record<string, Schema>, more: Schema = {}): Schema => ({
  type: 'object',
  required: Object.keys(properties),
  properties,
  ...more,
});
const refer = (name: string): Schema => ({ $ref: `#/components/schemas/${name}` });

interface Given {
  tag: string;
  /** The names of schemas. */
  reply?: string;
  body?: string;
  query?: Record<string, Schema>;
  user?: boolean;
  stream?: boolean;
}

const SCHEMAS: Record<string, Schema> = {
  Thing: object({ id: text }),
  ThingInput: object({ name: text }),
  ThingList: object({ data: { type: 'array', items: refer('Thing') }, links: object({ next: text }) }),
};

/** A document of these operations: `'GET /users listUsers': { … }`. */
function documentOf(operations: Record<string, Given>, schemas = SCHEMAS): ApiDocument {
  const paths: Record<string, Record<string, RawOperation>> = {};
  for (const [line, { reply, body, query = {}, user = false, tag, stream = false }] of Object.entries(
    operations,
  )) {
    const [method = '', path = '', operationId = ''] = line.split(' ');
    const content = stream
      ? { 'text/event-stream': { schema: text } }
      : { 'application/json': { schema: refer(reply ?? '') } };
    const operation: RawOperation = {
      operationId,
      summary: operationId,
      tags: [tag],
      security: [{ [user ? 'UserJWT' : 'ProjectJWT']: [] }],
      parameters: Object.entries(query).map(([name, schema]) => ({ in: 'query', name, schema })),
      responses: reply === undefined && !stream ? { 204: {} } : { 200: { content } },
      ...(body === undefined
        ? {}
        : { requestBody: { required: true, content: { 'application/json': { schema: refer(body) } } } }),
    };
    paths[path] = { ...paths[path], [method.toLowerCase()]: operation };
  }
  return { paths, tags: [], components: { schemas } };
}

/** The generated code without comments. */
async function generated(operations: Record<string, Given>, schemas?: Record<string, Schema>) {
  const files = await sdkFiles(documentOf(operations, schemas));
  const code = (name: string) =>
    (files[`sdk/src/generated/${name}.ts`] ?? '')
      .replaceAll(/\/\*\*.*?\*\//gs, '')
      .replaceAll(/^\/\/.*$/gm, '')
      .replaceAll(/\s+/g, ' ');
  return { project: code('project-client'), user: code('user-client'), types: code('types') };
}

describe('names', () => {
  const savable = (name: string, tag: string): Record<string, Given> => ({
    [`PUT /integrations/${name} save${tag}Integration`]: {
      tag: 'Integrations',
      body: 'ThingInput',
      reply: 'Thing',
    },
    [`DELETE /integrations/${name} delete${tag}Integration`]: { tag: 'Integrations' },
  });

  test.each<[string, Record<string, Given>, string]>([
    [
      'the tag is the resource, the verb the method',
      { 'GET /users/{user_id} getUser': { tag: 'Users', reply: 'Thing' } },
      'users = { get: (userId: string, options',
    ],
    [
      'several words',
      { 'POST /runs/{run_id}/stop stopRun': { tag: 'Workflow runs' } },
      'workflowRuns = { stop: (runId: string,',
    ],
    [
      'a qualifier of the noun stays with the verb',
      { 'POST /things/read readAllThings': { tag: 'Things' } },
      'things = { readAll: (',
    ],
    [
      'a qualifier of several operations is a resource',
      savable('web_push', 'WebPush'),
      'integrations = { webPush: { save: (',
    ],
    [
      'also if the path has the brand before it',
      savable('acme_slackbot', 'Slackbot'),
      'integrations = { slackbot: { save: (',
    ],
    [
      'an owner is an argument',
      { 'GET /users/{user_id}/things listThingsOfUser': { tag: 'Things', reply: 'ThingList' } },
      'things = { list: (userId: string, options?: RequestOptions): PageRequest<Thing> =>',
    ],
  ])('%s', async (_name, operations, expected) => {
    expect((await generated(operations)).project).toContain(expected);
  });

  test("methods of a user's client do not repeat the word user", async () => {
    const { user, project } = await generated({
      'GET /preferences getUserPreferences': { tag: 'Preferences', user: true, reply: 'Thing' },
    });
    expect(user).toContain('preferences = { get: (options?: RequestOptions): Promise<Thing> =>');
    expect(project).not.toContain('preferences');
  });

  test('two operations with the same method are rejected, with both names', async () => {
    const operations = { 'GET /a listThings': { tag: 'Things' }, 'GET /b listThing': { tag: 'Things' } };
    await expect(generated(operations)).rejects.toThrow(
      'listThing and listThings would both be "project: things.list"',
    );
  });

  test('a method that would also be a resource is rejected', async () => {
    const operations = {
      'POST /things/{thing_id}/read readThing': { tag: 'Things' },
      'PUT /things/read saveReadThing': { tag: 'Things' },
      'GET /things/read/one getReadThing': { tag: 'Things' },
    };
    await expect(generated(operations)).rejects.toThrow('"project: things.read" would be a method and hold');
  });

  test('a body without a named schema is rejected', async () => {
    const document = documentOf({ 'PUT /things saveThing': { tag: 'Things', body: 'ThingInput' } });
    for (const { content } of Object.values(document.paths).map(({ put }) => put?.requestBody ?? {}))
      if (content?.['application/json']) content['application/json'].schema = object({ a: text });
    await expect(sdkFiles(document)).rejects.toThrow('has no named schema');
  });
});

describe('methods', () => {
  test('have the ids of the path, the body, the query and options as arguments', async () => {
    const query = { id: text };
    const { project } = await generated({
      'PUT /things/{thing_id}/parts savePart': { tag: 'Parts', body: 'ThingInput', query },
    });
    expect(project).toContain(
      'save: (thingId: string, body: ThingInput, query?: Query<SavePartQuery>, ' +
        'options?: RequestOptions): Promise<void> => ' +
        "this.request({ method: 'PUT', path: `/things/$",
    );
    expect(project).toContain('{segment(thingId)}/parts`, body, query }, options)');
  });

  test('return streams with the events of their operation', async () => {
    const { project } = await generated({
      'GET /events listEvents': { tag: 'Events', reply: 'ThingList' },
      'GET /events/stream streamEvents': { tag: 'Events', stream: true },
    });
    expect(project).toContain("stream: (options?: StreamOptions): EventStream<EventOf<'streamEvents'>> =>");
  });

  test('exist only for operations with a token', async () => {
    const document = documentOf({ 'POST /hooks receiveHook': { tag: 'Hooks' } });
    for (const methods of Object.values(document.paths))
      for (const operation of Object.values(methods)) operation.security = [];
    expect((await sdkFiles(document))['sdk/src/generated/project-client.ts']).not.toContain('Hook');
  });
});

describe('types', () => {
  test('of every kind of schema', async () => {
    const members: Record<string, [Schema, string]> = {
      nullable: [{ type: ['string', 'null'] }, 'string | null'],
      whole: [{ type: 'integer' }, 'number'],
      choice: [{ type: 'string', enum: ['a', "it's"] }, "'a' | 'it\\'s'"],
      list: [{ type: 'array', items: refer('Thing') }, 'Array<Thing>'],
      free: [{ type: 'object', additionalProperties: {} }, '{ [key: string]: unknown; }'],
      closed: [{ type: 'object', additionalProperties: false }, '{ [key: string]: never; }'],
      either: [{ anyOf: [refer('Thing'), { type: 'null' }] }, 'Thing | null'],
      here: [{ allOf: [refer('Thing')], description: 'Only here.' }, 'Thing'],
    };
    const All = object(Object.fromEntries(Object.entries(members).map(([name, [schema]]) => [name, schema])));
    const { types } = await generated({}, { ...SCHEMAS, All });
    for (const [name, [, type]] of Object.entries(members)) expect(types).toContain(`${name}: ${type};`);
  });

  test('need one of the members that `anyOf` requires', async () => {
    const member: Schema = { type: ['string', 'null'] };
    const needs = (name: string): Schema => ({
      type: 'object',
      required: [name],
      properties: { [name]: {} },
    });
    const anyOf = [needs('a'), needs('b')];
    const Either: Schema = { type: 'object', properties: { a: member, b: member }, anyOf };
    const { types } = await generated({}, { Either });
    expect(types).toContain('export type Either = ({ a: unknown; } | { b: unknown; }) & {');
  });

  test('mark what a request may repeat from a response', async () => {
    const { types } = await generated({}, { Input: { ...object({ id: { ...text, readOnly: true } }) } });
    expect(types).toContain('export type Input = { readonly id: string; };');
  });

  test('of equal queries have one name', async () => {
    const query = { limit: text };
    const { types } = await generated({
      'GET /a listSmtpIntegrations': { tag: 'A', reply: 'ThingList', query },
      'GET /b listFcmIntegrations': { tag: 'B', reply: 'ThingList', query },
      'GET /c listUsers': { tag: 'C', reply: 'ThingList', query: { name: text } },
    });
    expect(types.match(/export type \w+Query\b/g)).toEqual([
      'export type ListIntegrationsQuery',
      'export type ListUsersQuery',
    ]);
  });
});
