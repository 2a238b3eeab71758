import { createHmac } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  type ApiResponse,
  processed,
  startTestService,
  type TestProject,
  type TestService,
  until,
} from '../support/service.ts';
import { startVendor, type VendorStandIn } from '../support/vendor-stand-in.ts';
import { ended } from '../support/workflows.ts';

// JavaScript's numbers have 53 bits. JSON's have no limit, and ids of other systems often have 64 bits.

const ATTRIBUTES =
  '{"id":9007199254740993,"nested":[{"ratio":0.12345678901234567890}],"large":12345678901234567890123456}';

let service: TestService;
let project: TestProject;
let mailer: VendorStandIn;

beforeAll(async () => {
  mailer = await startVendor();
  mailer.reply({ status: 200 });
  service = await startTestService({ pollMs: 50 });
  ({ project } = service);
});
afterAll(async () => {
  await service?.stop();
  await mailer?.stop();
});

/** Sends a body as text, so that its numbers are sent as they are written. */
async function send(
  caller: TestProject['call'],
  method: string,
  path: string,
  body: string,
): Promise<ApiResponse> {
  const response = await caller(method, path, body);
  expect([response.text, response.status]).toEqual([expect.anything(), expect.toBeOneOf([200, 201, 202])]);
  return response;
}

async function imported(caller: TestProject['call'], { body }: ApiResponse): Promise<void> {
  const { id } = body.import ?? body;
  await until(
    () => caller('GET', `/imports/${id}`),
    (response) => (response.body.import ?? response.body).status === 'processed',
  );
}

const graphql = (query: string, variables = '{}') =>
  project
    .v1('POST', '/graphql', `{"query":${JSON.stringify(query)},"variables":${variables}}`)
    .then((response) => {
      expect(response.text).not.toContain('"errors"');
      return response;
    });

const user = (name: string, more = '') =>
  `{"external_id":"${name}","custom_attributes":${ATTRIBUTES}${more}}`;

describe('large numbers in the custom attributes of a user are stored as they were sent', () => {
  const ways: Record<string, (name: string) => Promise<unknown>> = {
    'PUT /users': (name) => send(project.call, 'PUT', '/users', user(name)),
    'PATCH /users': async (name) => {
      await send(project.call, 'PUT', '/users', `{"external_id":"${name}"}`);
      await send(project.call, 'PATCH', `/users/external_id:${name}`, `{"custom_attributes":${ATTRIBUTES}}`);
    },
    'a short import': async (name) =>
      imported(project.call, await send(project.call, 'POST', '/users/import', `{"users":[${user(name)}]}`)),
    'an import that a thread parses': async (name) => {
      const others = Array.from({ length: 1_000 }, (_, at) => user(`${name}-${at}`, ',"first_name":"Ada"'));
      const body = `{"users":[${[...others, user(name)].join(',')}]}`;
      await imported(project.call, await send(project.call, 'POST', '/users/import', body));
    },
    'an import of NDJSON': async (name) => {
      const body = `${user(name)}\n`;
      const type = { 'content-type': 'application/x-ndjson' };
      await imported(project.call, await project.call('POST', '/users/import', body, type));
    },
    'an import of CSV': async (name) => {
      const body = `external_id,custom_attributes\n${name},"${ATTRIBUTES.replaceAll('"', '""')}"\n`;
      const type = { 'content-type': 'text/csv' };
      await imported(project.call, await project.call('POST', '/users/import', body, type));
    },
    'POST /users of v1': (name) => send(project.v1, 'POST', '/users', `{"user":${user(name)}}`),
    'PUT /users of v1': async (name) => {
      await send(project.v1, 'POST', '/users', `{"user":{"external_id":"${name}"}}`);
      const body = `{"user":{"custom_attributes":${ATTRIBUTES}}}`;
      await send(project.v1, 'PUT', `/users/external_id:${name}`, body);
    },
    'an import of v1': async (name) => {
      const body = `{"import":{"users":[${user(name)}]}}`;
      await imported(project.v1, await send(project.v1, 'POST', '/imports', body));
    },
    'a recipient of a broadcast': async (name) => {
      const { body } = await send(
        project.call,
        'POST',
        '/broadcasts',
        `{"title":"A","recipients":[${user(name)}]}`,
      );
      await processed(project.call, body.id);
    },
    'a recipient of a long broadcast': async (name) => {
      const content = JSON.stringify('x'.repeat(600_000));
      const sent = `{"title":"A","content":${content},"recipients":[${user(name)}]}`;
      const { body } = await send(project.call, 'POST', '/broadcasts', sent);
      await processed(project.call, body.id);
    },
    'a recipient of a notification of v1': async (name) => {
      const sent = `{"notification":{"title":"A","recipients":[${user(name)}]}}`;
      const { body } = await send(project.v1, 'POST', '/notifications', sent);
      await processed(project.call, body.notification.id);
    },
    'a variable of GraphQL': (name) =>
      graphql(
        'mutation ($input: UserInput!) { saveUser(input: $input) { id } }',
        `{"input":{"externalId":"${name}","customAttributes":${ATTRIBUTES}}}`,
      ),
    'a literal of GraphQL': (name) => {
      const literal = ATTRIBUTES.replace(/"(\w+)":/g, '$1:');
      return graphql(
        `mutation { saveUser(input: {externalId: "${name}", customAttributes: ${literal}}) { id } }`,
      );
    },
    'the user of a run': async (name) => {
      await project.call('PUT', '/workflows', { key: 'nothing', steps: [] });
      await send(project.call, 'POST', '/workflows/runs', `{"key":"nothing","input":{"user":${user(name)}}}`);
    },
  };

  test.each(Object.entries(ways))('by %s', async (way, save) => {
    const name = way.replace(/\W+/g, '-');
    await save(name);
    const { text } = await project.call('GET', `/users/external_id:${name}`);
    expect(text).toContain(`"custom_attributes":${ATTRIBUTES}`);
  });
});

test('large numbers in custom attributes are returned as they are stored', async () => {
  await send(project.call, 'PUT', '/users', user('ada', ',"email":"ada@example.com"'));
  const compact = `"custom_attributes":${ATTRIBUTES}`;
  expect((await project.call('GET', '/users?query=ada')).text).toContain(compact);
  expect((await project.v1('GET', '/users/external_id:ada')).text).toContain(compact);
  expect((await project.call('GET', '/users/external_id:ada/export')).text).toContain(compact);
  const shown = await graphql('{ users(first: 5, query: "ada") { edges { node { customAttributes } } } }');
  expect(shown.text).toContain(`"customAttributes":${ATTRIBUTES}`);
});

test('large numbers in custom attributes are sent as they are stored', async () => {
  const sender = await service.createProject('sender');
  await sender.call('PUT', '/integrations/ping_email', { url: `${mailer.address}/send` });
  const recipient = user('ada', ',"email":"ada@example.com"');
  const body = `{"title":"A","custom_attributes":${ATTRIBUTES},"recipients":[${recipient}]}`;
  await processed(sender.call, (await send(sender.call, 'POST', '/broadcasts', body)).body.id);
  expect(mailer.requests[0]?.body.split(`"custom_attributes":${ATTRIBUTES}`)).toHaveLength(3);
});

test('large numbers in the input of a run are kept, and sent on by its steps', async () => {
  const steps =
    `[{"command":"broadcast","input":{"title":"{{ input.title }}",` +
    `"custom_attributes":{"id":9007199254740993,"of":"{{ input.attributes }}","title":"{{input.title}}"}}}]`;
  const saved = await send(project.call, 'PUT', '/workflows', `{"key":"exact","steps":${steps}}`);
  expect(saved.text).toContain('"id":9007199254740993,');
  const input = `{"title":"Hello","attributes":${ATTRIBUTES},"user":{"external_id":"grace"}}`;
  const started = await send(project.call, 'POST', '/workflows/runs', `{"key":"exact","input":${input}}`);
  await ended(project, started.body.id);
  const run = await project.call('GET', `/workflows/runs/${started.body.id}`);
  expect(run.text).toContain(`"input":${input}`);
  const broadcast = await project.call('GET', `/broadcasts/${run.body.steps[0].output.id}`);
  expect(broadcast.text).toContain(
    `"custom_attributes":{"id":9007199254740993,"of":${ATTRIBUTES},"title":"Hello"}`,
  );
  const { text } = await project.as('grace')('GET', '/notifications');
  expect(text).toContain(`"of":${ATTRIBUTES}`);
});

test('large numbers are kept in what steps read: responses, users and notifications', async () => {
  mailer.reply({ status: 200, body: ATTRIBUTES });
  const copied =
    `{"body":"{{ steps[0].output.body }}","user":"{{ user.custom_attributes }}",` +
    `"sent":"{{ notification.custom_attributes }}"}`;
  const steps =
    `[{"command":"http","input":{"url":"${mailer.address}/"}},` +
    `{"command":"broadcast","input":{"title":"A","custom_attributes":${ATTRIBUTES}}},` +
    `{"command":"broadcast","input":{"title":"B","custom_attributes":${copied}}}]`;
  await send(project.call, 'PUT', '/workflows', `{"key":"reading","steps":${steps}}`);
  const input = `{"user":${user('reader')}}`;
  const started = await send(project.call, 'POST', '/workflows/runs', `{"key":"reading","input":${input}}`);
  await ended(project, started.body.id);
  const run = await project.call('GET', `/workflows/runs/${started.body.id}`);
  expect(run.text).toContain(`"body":${ATTRIBUTES}`);
  const { text } = await project.call('GET', `/broadcasts/${run.body.steps[2].output.id}`);
  expect(text).toContain(`{"body":${ATTRIBUTES},"user":${ATTRIBUTES},"sent":${ATTRIBUTES}}`);
});

test('large numbers in webhooks of other systems are kept in their events', async () => {
  const secret = 'whsec_exact';
  await project.call('PUT', '/integrations/stripe', { webhook_signing_secret: secret });
  const [{ id }] = (await project.call('GET', '/integrations/stripe')).body.data;
  const body = `{"id":"evt_1","object":"event","type":"invoice.paid","data":${ATTRIBUTES}}`;
  const seconds = Math.floor(Date.now() / 1000);
  const signature = createHmac('sha256', secret).update(`${seconds}.${body}`).digest('hex');
  const response = await fetch(`${service.address}/v2/integrations/stripe/webhooks/incoming/${id}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'stripe-signature': `t=${seconds},v1=${signature}` },
    body,
  });
  expect(response.status).toBe(201);
  const listed = await project.call('GET', '/events?type=integration.received');
  expect(listed.text).toContain(`"payload":${body}`);
  expect((await project.call('GET', `/events/${listed.body.data[0].id}`)).text).toContain(
    `"payload":${body}`,
  );
});
