import { readFileSync } from 'node:fs';
import { createConfig, lintFromString } from '@redocly/openapi-core';
import { Ajv } from 'ajv';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { EVENT_TYPES } from '../../src/contract/event.ts';
import { COMMAND_INPUTS } from '../../src/contract/workflow.ts';
import { COMMANDS } from '../../src/domain/workflows/steps/commands.ts';
import { referByTitle } from '../../src/http/openapi/schemas.ts';
import { type Description, describedBy, resolveReference } from '../support/operations.ts';
import { startTestService, type TestService } from '../support/service.ts';

let it: TestService;
const versions = {} as Record<'v1' | 'v2', Description>;
beforeAll(async () => {
  it = await startTestService();
  const { fastify } = it.http;
  versions.v1 = describedBy(fastify.swaggerV1() as unknown as Record<string, unknown>);
  versions.v2 = describedBy(fastify.swagger() as unknown as Record<string, unknown>);
});
afterAll(() => it.stop());

type Raw = Record<string, Record<string, Record<string, unknown>>>;

// A workflow may have the key `events`, and a subscription the category `unsubscribe`.
const UNDOCUMENTED = {
  v2: ['GET /workflows/events', 'DELETE /workflows/events'],
  v1: ['GET /subscriptions/{topic}/unsubscribe', 'DELETE /subscriptions/{topic}/unsubscribe'],
};

describe.each(['v2', 'v1'] as const)('the description of %s', (version) => {
  test('passes the linter', async () => {
    const described = versions[version];
    const config = await createConfig({ extends: ['recommended-strict'] });
    const problems = await lintFromString({
      source: JSON.stringify(described.document),
      absoluteRef: '/openapi.json',
      config,
    });
    const messages = problems.map(
      ({ ruleId, message, location }) => `${ruleId}: ${message} ${location[0]?.pointer}`,
    );
    // The paths are the contract's, and no workflow can have the key `runs`.
    const isOfRuns = (message: string) =>
      message.startsWith('no-ambiguous-paths') && message.includes('`/workflows/runs/{run_id}`');
    expect(messages.filter((message) => !isOfRuns(message))).toEqual([]);
  });

  test('has only valid schemas', () => {
    const { document } = versions[version];
    expect(schemasIn(document).length).toBeGreaterThan(100);
    for (const schema of schemasIn(document)) expectSchema(schema);
  });

  test('has all methods of its paths: others are 405, also if a path with a parameter has them', async () => {
    const { document } = versions[version];
    const base = version === 'v2' ? '/v2' : '';
    const others: string[] = [];
    for (const [path, operations] of Object.entries(document.paths as Raw)) {
      const documented = Object.keys(operations).map((method) => method.toUpperCase());
      for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const) {
        if (documented.includes(method)) continue;
        const url = `${base}${path.replaceAll(/\{\w+\}/g, 'x1')}`;
        const { statusCode, headers } = await it.http.fastify.inject({ method, url });
        const allowed = String(headers.allow).split(', ');
        const isRefused = statusCode === 405 && documented.every((one) => allowed.includes(one));
        if (!isRefused || allowed.includes(method)) others.push(`${method} ${path}`);
      }
    }
    expect(others).toEqual(UNDOCUMENTED[version]);
  });

  test('gives every operation a unique name, a summary, a description and a documented tag', () => {
    const described = versions[version];
    const tags = (described.document.tags as { name: string }[]).map(({ name }) => name);
    for (const [path, methods] of Object.entries(described.document.paths as Raw))
      for (const [method, operation] of Object.entries(methods)) {
        expect(operation, `${method} ${path}`).toMatchObject({
          operationId: expect.stringMatching(version === 'v1' ? /^[a-z][A-Za-z]+V1$/ : /^[a-z][A-Za-z]+$/),
          summary: expect.stringMatching(/^[A-Z].{3,}[^.]$/),
          description: expect.stringMatching(/^[A-Z`].{20,}\. Requires (a|the|no) [A-Za-z ]+\.$/s),
          ...(version === 'v1' ? { deprecated: true } : {}),
          tags: [expect.toBeOneOf(tags)],
        });
      }
    const names = described.operations.map(({ id }) => id);
    expect(new Set(names).size).toBe(names.length);
  });

  test('lists every error of an operation', () => {
    for (const { id, caller, replies, body, parameters } of versions[version].operations) {
      const needed = [429, 500, 503];
      if (caller !== 'public') needed.push(401, 403);
      if (body !== undefined) needed.push(400, 413, 415, 422);
      if (parameters.some((one) => one.in === 'path') && caller !== 'public') needed.push(404);
      expect([...replies.keys()], id).toEqual(expect.arrayContaining(needed));
    }
  });

  test('describes every parameter, and has examples of every body and response with members', () => {
    const lacking: string[] = [];
    for (const [path, methods] of Object.entries(versions[version].document.paths as Raw))
      for (const [method, operation] of Object.entries(methods)) {
        const where = `${method} ${path}`;
        for (const one of (operation.parameters ?? []) as {
          name: string;
          in: string;
          description?: string;
        }[])
          if (!one.description) lacking.push(`${where}: parameter ${one.name}`);
        const request = operation.requestBody as { content?: Content } | undefined;
        if (request && !hasExample(request.content)) lacking.push(`${where}: request`);
        const responses = operation.responses as Record<string, { content?: Content }>;
        for (const status of ['200', '201'])
          if (responses[status] && !hasExample(responses[status].content))
            lacking.push(`${where}: ${status}`);
      }
    expect(lacking).toEqual([]);
  });
});

test('has a webhook for every type of event, with the headers of Standard Webhooks', () => {
  const webhooks = versions.v2.document.webhooks as Record<
    string,
    { post: { parameters: { $ref: string }[] } }
  >;
  expect(Object.keys(webhooks)).toEqual(EVENT_TYPES);
  for (const { post } of Object.values(webhooks)) {
    const headers = post.parameters.map(({ $ref }) => resolveReference(versions.v2.document, $ref));
    expect(headers).toMatchObject(
      ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map((name) => ({ in: 'header', name })),
    );
  }
});

describe.each(['v2', 'v1'] as const)('named schemas of %s', (version) => {
  interface Named {
    $ref?: string;
    type?: string;
    properties?: Record<string, Named>;
    items?: Named;
    anyOf?: Named[];
    additionalProperties?: boolean | Named;
  }

  test('every JSON body and response has one', () => {
    const unnamed: string[] = [];
    for (const [path, methods] of Object.entries(versions[version].document.paths as Raw))
      for (const [method, operation] of Object.entries(methods)) {
        const parts = [operation.requestBody, ...Object.values(operation.responses ?? {})];
        for (const { content } of parts.filter((part) => part !== undefined) as { content?: Content }[]) {
          const schema = content?.['application/json']?.schema as Named | undefined;
          if (schema !== undefined && schema.$ref === undefined) unnamed.push(`${method} ${path}`);
        }
      }
    expect(unnamed).toEqual([]);
  });

  test('an object that is used twice has one', () => {
    const places = new Map<string, string[]>();
    const look = (schema: Named, place: string): void => {
      const { type, properties = {}, items, anyOf, additionalProperties } = schema;
      if (type === 'object' && Object.keys(properties).length > 0) {
        const text = JSON.stringify(properties);
        places.set(text, [...(places.get(text) ?? []), place]);
      }
      for (const [name, member] of Object.entries(properties)) look(member, `${place}.${name}`);
      if (items !== undefined) look(items, `${place}[]`);
      if (typeof additionalProperties === 'object') look(additionalProperties, `${place}.*`);
      // With properties, it only lists which of them are required.
      if (schema.properties === undefined) for (const part of anyOf ?? []) look(part, place);
    };
    const { schemas } = versions[version].document.components as { schemas: Record<string, Named> };
    for (const [name, { type: _, ...schema }] of Object.entries(schemas)) look(schema, name);
    expect([...places.values()].filter((same) => same.length > 1)).toEqual([]);
  });
});

test('the input of every command of a workflow is described', () => {
  const inputs = Object.entries(COMMAND_INPUTS) as [string, { title?: string }][];
  // `branch` is part of the engine.
  expect(inputs.map(([command]) => command).toSorted()).toEqual([...COMMANDS.keys(), 'branch'].toSorted());
  const { schemas } = versions.v2.document.components as { schemas: Record<string, object> };
  const references = inputs.map(([, { title }]) => ({ $ref: `#/components/schemas/${title}` }));
  expect(schemas.WorkflowStep).toMatchObject({
    properties: { input: { anyOf: expect.arrayContaining(references) } },
  });
  for (const [, { title = '' }] of inputs) expect(schemas).toHaveProperty(title);
});

test('a generator finds the resources by their names', () => {
  const { schemas } = versions.v2.document.components as { schemas: object };
  expect(Object.keys(schemas)).toEqual(expect.arrayContaining(RESOURCES));
});

// Generated clients use these names, so they must not change.
const RESOURCES = [
  ...['Broadcast', 'BroadcastInput', 'BroadcastList', 'Delivery', 'DeliveryList', 'Recipient'],
  ...['Notification', 'NotificationList', 'UnreadCount', 'Channel', 'Errors', 'ErrorDetail'],
  ...['InboxToken', 'ApnsToken', 'ExpoToken', 'FcmToken', 'ChatToken', 'TeamsToken', 'WebPushToken'],
  ...['User', 'UserInput', 'UserList', 'UserPreferences', 'Subscription', 'Suppression'],
  ...['CategoryDeliveryConfig', 'DeliveryWindows', 'UserDeliveryWindows', 'Tracking'],
  ...['Integration', 'IntegrationList', 'SmtpIntegration', 'SmtpIntegrationConfig', 'SlackInstallation'],
  ...['Event', 'EventList', 'EventType', 'Webhook', 'WebhookInput', 'WebhookList', 'WebhookDelivery'],
];

test('two schemas with the same title are refused', () => {
  const one = { title: 'Thing', type: 'object', properties: { a: { type: 'string' } } };
  const definitions = {};
  expect(referByTitle(one, definitions)).toEqual({ $ref: '#/components/schemas/Thing' });
  const other = { ...one, properties: {} };
  expect(() => referByTitle({ type: 'array', items: other }, definitions)).toThrow(
    'two different schemas have the title Thing',
  );
});

type Content = Record<
  string,
  {
    example?: unknown;
    examples?: unknown;
    schema?: { examples?: unknown; type?: unknown; properties?: Record<string, unknown> };
  }
>;

function hasExample(content: Content | undefined): boolean {
  const json = content?.['application/json'];
  if (json === undefined) return true; // a stream of events
  if (json.schema?.properties !== undefined && Object.keys(json.schema.properties).length === 0) return true;
  return json.example !== undefined || json.examples !== undefined || json.schema?.examples !== undefined;
}

test('the inputs of commands have valid schemas', () => {
  for (const schema of Object.values(COMMAND_INPUTS)) expectSchema(schema);
});

const ajv = new Ajv({ validateFormats: false });

/** The validator of the service does not check the schemas that it compiles. */
function expectSchema(schema: object): void {
  expect(ajv.validateSchema(schema), `${ajv.errorsText()}: ${JSON.stringify(schema)}`).toBe(true);
}

function schemasIn(value: unknown): object[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, member]) => [
    ...(key === 'schema' ? [member as object] : []),
    ...schemasIn(member),
  ]);
}

test.each(['openapi.json', 'openapi-v1.json'])(
  'every enum of %s has a type, which generators need',
  (file) => {
    const untyped: string[] = [];
    const look = (value: unknown, path: string): void => {
      if (typeof value !== 'object' || value === null) return;
      if ('enum' in value && Array.isArray(value.enum) && !('type' in value)) untyped.push(path);
      for (const [key, member] of Object.entries(value)) look(member, `${path}/${key}`);
    };
    look(JSON.parse(readFileSync(new URL(`../../../${file}`, import.meta.url), 'utf8')), '');
    expect(untyped).toEqual([]);
  },
);
