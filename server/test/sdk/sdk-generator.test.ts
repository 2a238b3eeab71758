import { describe, expect, test } from 'vitest';
import type { ApiDocument, RawOperation, Schema } from '../../src/cli/sdk/document.ts';
import { sdkFiles } from '../../src/cli/sdk/files.ts';

const text: Schema = { type: 'string' };
const object = (properties: Record<string, Schema>, more: Schema = {}): Schema => ({
  type: 'object',
  required: Object.keys(properties),
  properties,
  ...more,
});
const pageOf = (item: Schema): Schema =>
  object({ data: { type: 'array', items: item }, links: object({ next: text }) });

interface Given {
  reply?: Schema;
  body?: Schema;
  query?: Record<string, Schema>;
  user?: boolean;
  tag: string;
  stream?: boolean;
}

/** A document of these operations: `'GET /users listUsers': { … }`. */
function documentOf(operations: Record<string, Given>): ApiDocument {
  const paths: Record<string, Record<string, RawOperation>> = {};
  for (const [line, { reply, body, query = {}, user = false, tag, stream = false }] of Object.entries(
    operations,
  )) {
    const [method = '', path = '', operationId = ''] = line.split(' ');
    const type = stream ? 'text/event-stream' : 'application/json';
    const operation: RawOperation = {
      operationId,
      summary: operationId,
      tags: [tag],
      security: [{ [user ? 'UserJWT' : 'ProjectJWT']: [] }],
      parameters: Object.entries(query).map(([name, schema]) => ({ in: 'query', name, schema })),
      responses: reply === undefined ? { 204: {} } : { 200: { content: { [type]: { schema: reply } } } },
      ...(body === undefined
        ? {}
        : { requestBody: { required: true, content: { 'application/json': { schema: body } } } }),
    };
    paths[path] = { ...paths[path], [method.toLowerCase()]: operation };
  }
  return { paths, tags: [] };
}

/** What is generated, without comments and the file's head. */
function generated(operations: Record<string, Given>) {
  const files = sdkFiles(documentOf(operations));
  const code = (name: string) =>
    (files[`sdk/src/generated/${name}.ts`] ?? '')
      .replaceAll(/\/\*\*.*?\*\//gs, '')
      .replaceAll(/^\/\/.*$/gm, '')
      .replaceAll(/\s+/g, ' ');
  return { project: code('project-client'), user: code('user-client'), types: code('types') };
}

/** The type as it is generated for this schema, as a member of a record. */
function typeOf(schema: Schema): string {
  const record = object({ member: schema });
  const { types } = generated({ 'GET /things/{thing_id} getThing': { tag: 'Things', reply: record } });
  return /type Thing = { member: (.*?); };/.exec(types)?.[1] ?? types;
}

describe('names', () => {
  const token = object({ token: text });
  const savable = (name: string, tag: string): Record<string, Given> => ({
    [`PUT /integrations/${name} save${tag}Integration`]: { tag: 'Integrations', body: token, reply: token },
    [`DELETE /integrations/${name} delete${tag}Integration`]: { tag: 'Integrations' },
  });

  test.each<[string, Record<string, Given>, string]>([
    [
      'the tag is the resource, the verb the method',
      { 'GET /users/{user_id} getUser': { tag: 'Users', reply: object({ id: text }) } },
      'users = { get: (userId: string, options',
    ],
    [
      'several words',
      { 'POST /runs/{run_id}/stop stopRun': { tag: 'Workflow runs' } },
      'workflowRuns = { stop: (runId: string,',
    ],
    [
      'what qualifies the noun stays with the verb',
      { 'POST /things/read readAllThings': { tag: 'Things' } },
      'things = { readAll: (',
    ],
    [
      'what several share is a resource',
      savable('web_push', 'WebPush'),
      'integrations = { webPush: { save: (',
    ],
    [
      'also where the path has the brand before it',
      savable('acme_slackbot', 'Slackbot'),
      'integrations = { slackbot: { save: (',
    ],
    [
      'an owner is named by the argument',
      { 'GET /users/{user_id}/tokens listTokensOfUser': { tag: 'Tokens', reply: pageOf(token) } },
      'tokens = { list: (userId: string, options?: RequestOptions): PageRequest<Token> =>',
    ],
  ])('%s', (_name, operations, expected) => {
    expect(generated(operations).project).toContain(expected);
  });

  test("a user's client does not say that it is the user's", () => {
    const preferences = { tag: 'Preferences', user: true, reply: object({ on: text }) };
    const { user, project } = generated({ 'GET /preferences getUserPreferences': preferences });
    expect(user).toContain('preferences = { get: (options?: RequestOptions): Promise<UserPreferences> =>');
    expect(project).not.toContain('preferences');
  });

  test('two operations that would be one method are refused, with both names', () => {
    const operations = { 'GET /a listThings': { tag: 'Things' }, 'GET /b listThing': { tag: 'Things' } };
    expect(() => generated(operations)).toThrow(
      'listThing and listThings would both be "project: things.list"',
    );
  });

  test('a method that would also be a resource is refused', () => {
    const operations = {
      'POST /things/{thing_id}/read readThing': { tag: 'Things' },
      'PUT /things/read saveReadThing': { tag: 'Things' },
      'GET /things/read/one getReadThing': { tag: 'Things' },
    };
    expect(() => generated(operations)).toThrow('"project: things.read" would be a method and hold');
  });
});

describe('methods', () => {
  test('ids of the path, the body, the query, options', () => {
    const query = { id: text };
    const { project } = generated({
      'PUT /things/{thing_id}/parts savePart': { tag: 'Parts', body: object({ a: text }), query },
    });
    expect(project).toContain(
      'save: (thingId: string, body: SavePartBody, query?: SavePartQuery, options?: RequestOptions): Promise<void> => ' +
        "this.request({ method: 'PUT', path: `/things/$",
    );
    expect(project).toContain('{segment(thingId)}/parts`, body, query }, options)');
  });

  test('a stream carries the records of its resource', () => {
    const event = object({ id: text });
    const { project } = generated({
      'GET /events listEvents': { tag: 'Events', reply: pageOf(event) },
      'GET /events/stream streamEvents': { tag: 'Events', reply: text, stream: true },
    });
    expect(project).toContain(
      "stream: (options?: StreamOptions): EventStream<EventOf<'streamEvents', Event>> =>",
    );
  });

  test('what takes neither kind of token is left out', () => {
    const document = documentOf({ 'POST /hooks receiveHook': { tag: 'Hooks' } });
    for (const methods of Object.values(document.paths))
      for (const operation of Object.values(methods)) operation.security = [];
    expect(sdkFiles(document)['sdk/src/generated/project-client.ts']).not.toContain('Hook');
  });
});

describe('types', () => {
  test.each<[string, Schema]>([
    ['string | null', { type: ['string', 'null'] }],
    ['number', { type: 'integer' }],
    ["'a' | 'it\\'s' | null", { enum: ['a', null, "it's"] }],
    ['true', { const: true }],
    ["('a' | 'b')[]", { type: 'array', items: { enum: ['a', 'b'] } }],
    ['Record<string, unknown> | null', { type: ['object', 'null'], additionalProperties: {} }],
    ['Record<string, string>', { type: 'object', patternProperties: { '^.*$': text } }],
    ['Record<string, never>', { type: 'object', additionalProperties: false }],
    ['unknown', {}],
    ['string | number', { anyOf: [text, { type: 'number' }] }],
    ['string | number', { oneOf: [text, { type: 'integer' }, { type: 'number' }] }],
  ])('%s', (expected, schema) => {
    expect(typeOf(schema)).toBe(expected);
  });

  test('what is optional may be undefined, what is required is there', () => {
    const record = object({ a: text, 'b-c': text }, { required: ['a'] });
    const { types } = generated({ 'GET /things/{thing_id} getThing': { tag: 'Things', reply: record } });
    expect(types).toContain("export type Thing = { a: string; 'b-c'?: string | undefined; };");
  });

  test('one of several members is needed', () => {
    const needs = (name: string): Schema => ({
      required: [name],
      properties: { [name]: { not: { type: 'null' } } },
    });
    const member: Schema = { type: ['string', 'null'] };
    const body = object({ a: member, b: member }, { required: [], anyOf: [needs('a'), needs('b')] });
    const { types } = generated({ 'PUT /things saveThing': { tag: 'Things', body } });
    expect(types).toContain('} & ({ a: string } | { b: string });');
  });

  test('a request need not say what only answers say', () => {
    const body = object({ a: text, id: { ...text, readOnly: true } });
    expect(generated({ 'PUT /things saveThing': { tag: 'Things', body } }).types).toContain(
      'export type SaveThingBody = { a: string; };',
    );
  });

  test('a name is true of everything that it is used for', () => {
    const link = object({ url: text });
    const { types, project } = generated({
      'GET /users listUsers': { tag: 'Users', reply: pageOf(object({ home: link })) },
      'GET /hooks/{hook_id} getHook': {
        tag: 'Hooks',
        reply: object({ target: link, others: { type: 'array', items: link } }),
      },
      'PUT /links saveLink': { tag: 'Links', body: link, reply: link },
      'DELETE /a/{a_id} deleteA': { tag: 'A', reply: object({ gone: text }) },
      'DELETE /b/{b_id} deleteB': { tag: 'B', reply: object({ gone: text }) },
    });
    expect(types).toContain('export type User = { home: UserHome; };');
    expect(types).toContain('export type Hook = { target: HookTarget; others: HookOther[]; };');
    expect(project).toContain('save: (body: SaveLinkBody, options?: RequestOptions): Promise<SaveLinkBody>');
    expect(project.match(/Promise<DeleteReply>/g)).toHaveLength(2);
  });
});
