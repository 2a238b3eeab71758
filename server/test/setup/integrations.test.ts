import type { TObject } from 'typebox';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openDatabase, sql } from '../../src/db/client.ts';
import { findIntegrations, findIntegrationsById } from '../../src/domain/setup/integrations/find.ts';
import { listIntegrations } from '../../src/domain/setup/integrations/list.ts';
import { getOrCreateIntegration } from '../../src/domain/setup/integrations/save.ts';
import type { Problem } from '../../src/errors.ts';
import { firstIdAt, newId } from '../../src/lib/ids.ts';
import { createSealer } from '../../src/lib/seal.ts';
import { type IntegrationName, integrations, wireNameOf } from '../../src/providers/index.ts';
import { type Integration, secretsOf } from '../../src/providers/provider.ts';
import { createVapidKeys } from '../../src/providers/web-push/vapid.ts';
import { createTestDatabase } from '../support/database.ts';
import { integrationConfigs } from '../support/integration-configs.ts';
import { listPages, pathOfPage } from '../support/pages.ts';
import { startTestService, type TestProject, type TestService } from '../support/service.ts';
import { withWrong, wrongValues } from '../support/wrong-values.ts';

let service: TestService;
let project: TestProject;

beforeAll(async () => {
  service = await startTestService();
  project = service.project;
});
afterAll(() => service?.stop());

const smtp = {
  host: 'mail.example',
  port: 587,
  username: 'belfry',
  password: 'canary-7d1f-smtp',
  from: { email: 'a@b.example', name: 'A' },
};

const configsOf = async (of: TestProject, provider = 'smtp') =>
  (await of.call('GET', `/integrations/${provider}`)).body.data as {
    name: string;
    id: string;
    config: { host: string };
  }[];
const inUse = async (of: TestProject) =>
  (await service.context.integrations.of(of.id)).map(({ id, config }) => [id, config.host]);

describe('smtp', () => {
  test('is saved, shown, used, replaced and deleted', async () => {
    const saved = await project.call('PUT', '/integrations/smtp', smtp);
    expect([saved.status, saved.body]).toEqual([200, smtp]);
    const list = await project.call('GET', '/integrations/smtp');
    expect(list.body).toEqual({
      data: [{ name: 'smtp', id: expect.any(String), config: smtp }],
      links: { first: expect.stringContaining('/v2/integrations/smtp'), next: null, prev: null },
    });
    const [{ id, version } = { id: '', version: '' }] = await service.context.integrations.of(project.id);
    expect(id).toBe(list.body.data[0].id);
    await project.call('PUT', '/integrations/smtp', { ...smtp, host: 'other.example' });
    const [replaced] = await service.context.integrations.of(project.id);
    expect([replaced?.id, replaced?.config.host]).toEqual([id, 'other.example']);
    expect(replaced?.version).not.toBe(version);
    const gone = await project.call('DELETE', '/integrations/smtp');
    expect([gone.status, gone.body]).toEqual([200, {}]);
    expect(await inUse(project)).toEqual([]);
    expect((await project.call('DELETE', '/integrations/smtp')).status).toBe(404);
  });

  test('several have separate ids; the one that was saved first is used first, whatever the id', async () => {
    const other = await service.createProject('several');
    const [first, second] = ['ffffffff-0000-7000-8000-000000000000', '00000000-0000-7000-8000-000000000000'];
    await other.call('PUT', `/integrations/smtp?id=${first.toUpperCase()}`, { ...smtp, host: 'one.example' });
    await other.call('PUT', `/integrations/smtp?id=${second}`, { ...smtp, host: 'two.example' });
    await other.call('PUT', '/integrations/smtp', { ...smtp, host: 'three.example' });
    expect(await inUse(other)).toEqual([
      [first, 'three.example'],
      [second, 'two.example'],
    ]);
    expect((await configsOf(other)).map((one) => one.id)).toEqual([second, first]);
    expect((await other.call('DELETE', `/integrations/smtp?id=${first}`)).status).toBe(200);
    expect(await inUse(other)).toEqual([[second, 'two.example']]);
    expect((await other.call('DELETE', `/integrations/smtp?id=${first}`)).status).toBe(404);
  });

  test('an id of another project creates a new one, and theirs stays as it is', async () => {
    const [mine, theirs] = [await service.createProject('mine'), await service.createProject('theirs')];
    await theirs.call('PUT', '/integrations/smtp', smtp);
    const [{ id } = { id: '' }] = await configsOf(theirs);
    expect((await mine.call('DELETE', `/integrations/smtp?id=${id}`)).status).toBe(404);
    const saved = await mine.call('PUT', `/integrations/smtp?id=${id}`, { ...smtp, host: 'mine.example' });
    expect(saved.status).toBe(200);
    expect(await inUse(mine)).toEqual([[id, 'mine.example']]);
    expect(await inUse(theirs)).toEqual([[id, 'mail.example']]);
    expect((await mine.call('DELETE', `/integrations/smtp?id=${id}`)).status).toBe(200);
    expect(await configsOf(theirs)).toMatchObject([{ id, config: { host: 'mail.example' } }]);
  });

  test('an id of another provider is not found and stays as it is', async () => {
    const other = await service.createProject('two providers');
    await other.call('PUT', '/integrations/smtp', smtp);
    const [{ id } = { id: '' }] = await configsOf(other);
    expect((await other.call('PUT', `/integrations/inbox?id=${id}`, {})).status).toBe(404);
    expect((await other.call('DELETE', `/integrations/inbox?id=${id}`)).status).toBe(404);
    expect(await configsOf(other)).toMatchObject([{ id, config: { host: 'mail.example' } }]);
  });

  test('concurrent first saves make one integration', async () => {
    const other = await service.createProject('at once');
    await Promise.all(Array.from({ length: 8 }, () => other.call('PUT', '/integrations/smtp', smtp)));
    expect(await configsOf(other)).toHaveLength(1);
  });

  test('a config whose key is lost is shown as unreadable and does not delay the others', async () => {
    const other = await service.createProject('lost key');
    const id = newId();
    await other.call('PUT', `/integrations/smtp?id=${id}`, smtp);
    await other.call('PUT', `/integrations/smtp?id=${newId()}`, { ...smtp, host: 'works.example' });
    const foreign = createSealer([Buffer.alloc(32, 1)]).seal('{}', 'x');
    await service.context.db.query(
      sql('test_lose_key', 'update integrations set sealed_config = $2 where id = $1'),
      [id, foreign],
    );
    service.context.bus.publish({ type: 'project_changed', projectId: other.id });
    const list = await other.call('GET', '/integrations/smtp');
    expect(list.status).toBe(200);
    expect(list.body.data).toMatchObject([{ config: { host: 'works.example' } }, { id, config: null }]);
    // It comes last: a message waits for it only if no other integration accepts it.
    expect((await inUse(other)).map(([, host]) => host)).toEqual(['works.example', undefined]);
    expect((await other.call('PUT', `/integrations/smtp?id=${id}`, smtp)).status).toBe(200);
    expect((await inUse(other)).map(([, host]) => host)).toEqual(['mail.example', 'works.example']);
  });

  test('rejects a wrong config with every problem, and stores nothing', async () => {
    const other = await service.createProject('wrong');
    const { status, body } = await other.call('PUT', '/integrations/smtp', {
      port: 70_000,
      username: 'u',
      password: 1,
      from: { email: 'no address', more: 1 },
      security: 'some',
    });
    expect(status).toBe(422);
    const problems = body.errors.map((error: { message: string }) => error.message).join('\n');
    for (const name of ['host', 'port', 'password', 'from.email', 'more', 'security']) {
      expect(problems).toContain(name);
    }
    expect(await configsOf(other)).toEqual([]);
    expect((await other.call('PUT', '/integrations/smtp?id=nonsense', smtp)).status).toBe(422);
  });

  test('problems of the query are reported together with those of the config', async () => {
    const other = await service.createProject('wrong twice');
    const { status, body } = await other.call('PUT', '/integrations/smtp?id=x&verify=maybe&dry_run=true', {
      ...smtp,
      port: 0,
    });
    expect([status, body.errors.map(({ message }: Problem) => message)]).toEqual([
      422,
      [
        "Param '(root)' doesn't allow key: dry_run",
        "Param 'id' must be a UUID",
        "Param 'verify' must be a boolean",
        "Param 'port' must be 1 or more",
      ],
    ]);
    expect(await configsOf(other)).toEqual([]);
  });
});

describe.each(Object.entries(integrations))('%s', (name, integration) => {
  const path = `/integrations/${wireNameOf(name, 'service')}`;
  const { minimal, full } = integrationConfigs[name as IntegrationName];
  const complete = (config: object) => (integration as Integration).complete?.(config as never) ?? config;

  test('is returned as it was saved, until it is deleted', async () => {
    const other = await service.createProject(`round trip ${name}`);
    for (const config of [full, minimal]) {
      const saved = await other.call('PUT', path, config);
      expect([saved.status, saved.body]).toEqual([200, complete(config)]);
      const { status, body } = await other.call('GET', path);
      expect([status, body]).toEqual([
        200,
        {
          data: [{ name: wireNameOf(name, 'service'), id: expect.any(String), config: complete(config) }],
          links: { first: expect.stringContaining(path), next: null, prev: null },
        },
      ]);
      expect((await other.call('GET', '/integrations')).body.data).toEqual(body.data);
    }
    expect((await project.call('GET', path)).body.data).toEqual([]);
    expect((await project.call('DELETE', path)).status).toBe(404);
    const gone = await other.call('DELETE', path);
    expect([gone.status, gone.body]).toEqual([200, {}]);
    expect((await other.call('GET', path)).body.data).toEqual([]);
    expect((await other.call('DELETE', path)).status).toBe(404);
  });

  test('is rejected for each problem by name, and stays as it was', async () => {
    const other = await service.createProject(`wrong ${name}`);
    await other.call('PUT', path, full);
    const wrong = wrongValues(integration.config);
    expect(wrong.length).toBeGreaterThan(1);
    for (const change of wrong) {
      const { status, body } = await other.call('PUT', path, withWrong(full, change));
      const where = `${change.path.join('.')} = ${JSON.stringify(change.value)}`;
      expect([status, body.errors?.map((one: Problem) => one.message)], where).toEqual([
        422,
        expect.arrayContaining([change.message]),
      ]);
      expect(body.errors[0].code).toBe('validation_failed');
    }
    for (const body of [[], 'text', null, 1]) {
      const { status } = await other.call('PUT', path, JSON.stringify(body));
      expect(status, JSON.stringify(body)).toBe(422);
    }
    expect((await other.call('GET', path)).body.data).toMatchObject([{ config: complete(full) }]);
  });

  test('needs the Project JWT', async () => {
    for (const method of ['PUT', 'GET', 'DELETE'])
      expect((await project.as('u')(method, path, method === 'PUT' ? full : undefined)).status).toBe(403);
  });
});

describe('the list of all integrations', () => {
  test('lists those of every provider, newest first, page by page in both directions', async () => {
    const other = await service.createProject('all of them');
    const names = Object.keys(integrations) as IntegrationName[];
    for (const name of names)
      await other.call('PUT', `/integrations/${wireNameOf(name, 'service')}`, integrationConfigs[name].full);
    await other.call('PUT', `/integrations/smtp?id=${newId()}`, smtp);
    const wanted = [...names, 'smtp' as const].map((name) => wireNameOf(name, 'service')).reverse();
    const whole = await other.call('GET', '/integrations');
    expect(whole.body.data.map((one: { name: string }) => one.name)).toEqual(wanted);
    const pages: { name: string }[][] = [];
    let next: string | null = '/integrations?limit=5';
    let last = '';
    while (next !== null) {
      const { body } = await other.call('GET', next);
      pages.push(body.data);
      last = next;
      next = body.links.next && pathOfPage(body.links.next);
    }
    const full = Math.floor(wanted.length / 5);
    const rest = wanted.length % 5;
    const sizes = [...Array(full).fill(5), ...(rest === 0 ? [] : [rest])];
    expect(pages.map((page) => page.length)).toEqual(sizes);
    expect(pages.flat()).toEqual(whole.body.data);
    const { body } = await other.call('GET', last);
    const before = await other.call('GET', pathOfPage(body.links.prev));
    expect(before.body.data).toEqual(pages.at(-2));
    expect((await project.call('GET', '/integrations?limit=0')).status).toBe(422);
  });

  test.each(['/integrations', '/integrations/smtp'])('%s is in the order of creation', async (path) => {
    const other = await service.createProject(`chosen ids ${path}`);
    const ids: string[] = [];
    for (const digit of ['c', '1', '', 'f', '8']) {
      const id = digit === '' ? firstIdAt(Date.now() + 1) : `${digit.repeat(8)}-0000-4000-8000-000000000000`;
      ids.push(id);
      await other.call('PUT', `/integrations/smtp?id=${id}`, smtp);
    }
    await other.call('PUT', `/integrations/smtp?id=${ids[1]}`, { ...smtp, host: 'changed.example' });
    const newestFirst = ids.toReversed();
    for (const [direction, start] of [
      ['next', `${path}?limit=2`],
      ['prev', `${path}?limit=2&ending_before=${ids[0]}`],
    ] as const) {
      const pages = await listPages<{ id: string }>(other.call, start, direction);
      const shown = (direction === 'next' ? pages : pages.toReversed()).flat().map(({ id }) => id);
      expect(shown).toEqual(direction === 'next' ? newestFirst : newestFirst.slice(0, -1));
    }
    // The place of a deleted one is known only from a UUIDv7. After another, the list begins again.
    const idsAfter = async (id: string | undefined) =>
      (await other.call('GET', `${path}?starting_after=${id}`)).body.data.map(
        (one: { id: string }) => one.id,
      );
    await other.call('DELETE', `/integrations/smtp?id=${ids[2]}`);
    expect(await idsAfter(ids[2])).toEqual([ids[1], ids[0]]);
    await other.call('DELETE', `/integrations/smtp?id=${ids[3]}`);
    expect(await idsAfter(ids[3])).toEqual([ids[4], ids[1], ids[0]]);
  });

  test('needs the Project JWT, and shows nothing of other projects', async () => {
    const other = await service.createProject('nothing');
    const { body } = await other.call('GET', '/integrations');
    expect(body).toEqual({ data: [], links: { first: expect.any(String), next: null, prev: null } });
    expect((await other.as('u')('GET', '/integrations')).status).toBe(403);
    expect((await fetch(`${service.address}/v2/integrations`)).status).toBe(401);
  });
});

test('the brand is part of paths, names and events in both spellings, but is not stored', async () => {
  const branded = await startTestService({ settings: { BRAND: 'acme' } });
  try {
    const { call } = branded.project;
    for (const [word, enabled] of [
      ['acme', true],
      ['service', false],
    ] as const) {
      const saved = await call('PUT', `/integrations/${word}_slackbot`, { enabled });
      expect([saved.status, saved.body]).toEqual([200, { enabled }]);
      for (const path of ['acme_slackbot', 'service_slackbot']) {
        const { body } = await call('GET', `/integrations/${path}`);
        expect(body.data).toMatchObject([{ name: 'acme_slackbot', config: { enabled } }]);
      }
    }
    expect((await call('GET', '/integrations')).body.data).toMatchObject([{ name: 'acme_slackbot' }]);
    expect((await call('PUT', '/integrations/other_slackbot', { enabled: true })).status).toBe(404);
    expect((await call('PUT', '/integrations/slackbot', { enabled: true })).status).toBe(404);
    const stored = await branded.context.db.query<{ provider: string }>(
      sql('test_stored_names', 'select provider from integrations'),
    );
    expect(stored).toEqual([{ provider: 'slackbot' }]);
    const events = await call('GET', '/events?type=integration.saved');
    expect(events.body.data).toMatchObject([
      { context: { provider: 'acme_slackbot' }, payload: { name: 'acme_slackbot' } },
      { context: { provider: 'acme_slackbot' }, payload: { name: 'acme_slackbot' } },
    ]);
  } finally {
    await branded.stop();
  }
});

describe('look-ups by other parts of the service', () => {
  test('a project finds its own in failover order, decrypted', async () => {
    const other = await service.createProject('finds');
    const ids = ['ffffffff-0000-7000-8000-000000000001', '00000000-0000-7000-8000-000000000001'];
    const config = integrationConfigs.slack.full;
    for (const id of ids) await other.call('PUT', `/integrations/slack?id=${id}`, config);
    const found = await findIntegrations(service.context, other.id, 'slack');
    expect(found).toEqual(ids.map((id) => ({ id, projectId: other.id, config })));
    expect(await findIntegrations(service.context, project.id, 'slack')).toEqual([]);
  });

  test('an id alone finds those of every project that has it', async () => {
    const [one, two] = [await service.createProject('id one'), await service.createProject('id two')];
    const id = newId();
    for (const [of, secret] of [
      [one, 'a'],
      [two, 'b'],
    ] as const)
      await of.call('PUT', `/integrations/stripe?id=${id}`, { webhook_signing_secret: secret });
    const found = await findIntegrationsById(service.context, 'stripe', id);
    expect(found.map(({ projectId, config }) => [projectId, config.webhook_signing_secret])).toEqual([
      [one.id, 'a'],
      [two.id, 'b'],
    ]);
    expect(await findIntegrationsById(service.context, 'github', id)).toEqual([]);
  });

  test('concurrent look-ups of a missing integration get the same new one', async () => {
    const other = await service.createProject('makes keys');
    const lookUp = () =>
      getOrCreateIntegration(service.context, {
        projectId: other.id,
        provider: 'web_push',
        make: createVapidKeys,
      });
    const responses = await Promise.all(Array.from({ length: 8 }, lookUp));
    expect(new Set(responses.map(({ id, config }) => `${id} ${config.private_key}`)).size).toBe(1);
    const list = await other.call('GET', '/integrations/web_push');
    expect(list.body.data).toEqual([
      { name: 'web_push', id: responses[0]?.id, config: responses[0]?.config },
    ]);
    const events = await service.context.db.query(
      sql('test_made_events', "select from events where project_id = $1 and type = 'integration.saved'"),
      [other.id],
    );
    expect(events).toHaveLength(1);
  });
});

test('no statement reads the whole table', async () => {
  const database = await createTestDatabase();
  const db = openDatabase(database.connection, { size: 1, name: 'plans' });
  const context = { db, sealer: createSealer([Buffer.alloc(32, 1)]) };
  const names: IntegrationName[] = ['smtp', 'web_push'];
  const id = newId();
  try {
    // More often than PostgreSQL plans for the given values.
    for (let count = 0; count < 6; count += 1) {
      for (const provider of names) await findIntegrations(context, id, provider);
      await findIntegrationsById(context, 'smtp', id);
      for (const direction of ['older', 'newer'] as const)
        await listIntegrations(context, { projectId: id }, { direction, id, limit: 50 });
    }
    await db.query(sql('', 'set plan_cache_mode = force_generic_plan'));
    const statements = await db.query<{ name: string; places: number }>(
      sql(
        '',
        `select name, cardinality(parameter_types) as places from pg_prepared_statements
          where name ~ 'integrations'`,
      ),
    );
    expect(statements.map(({ name }) => name).sort()).toEqual([
      'find_integrations',
      'find_integrations_by_id',
      'list_integrations_newer',
      'list_integrations_older',
    ]);
    for (const { name, places } of statements) {
      const values = Array.from({ length: places }, () => 'null').join(', ');
      const plan = await db.query<Record<'QUERY PLAN', string>>(
        sql('', `explain execute ${name}(${values})`),
      );
      expect(plan.map((line) => line['QUERY PLAN']).join('\n'), name).toMatch(
        /Index( Only)? Scan|Bitmap Index/,
      );
    }
  } finally {
    await db.close();
    await database.drop();
  }
});

test('an inbox config always has its three keys', async () => {
  const saved = await project.call('PUT', '/integrations/inbox', { locale: 'de' });
  expect([saved.status, saved.body]).toEqual([200, { images: null, locale: 'de', theme: null }]);
  const { body } = await project.call('GET', '/integrations/inbox');
  expect(body.data).toMatchObject([{ name: 'inbox', config: { images: null, locale: 'de', theme: null } }]);
  expect((await project.call('DELETE', '/integrations/inbox')).body).toEqual({});
});

test("an inbox theme is returned as it was saved; its banner's opacity is a number", async () => {
  const banner = (backgroundOpacity: unknown) => ({
    theme: { banner: { backgroundColor: '#fff', backgroundOpacity, fontSize: '1em', textColor: '#000' } },
  });
  const saved = await project.call('PUT', '/integrations/inbox', banner(0.4));
  expect([saved.status, saved.body.theme]).toEqual([200, banner(0.4).theme]);
  expect((await project.call('PUT', '/integrations/inbox', banner('0.4'))).status).toBe(422);
  await project.call('DELETE', '/integrations/inbox');
});

test.each(['PUT', 'GET', 'DELETE'])('%s needs the Project JWT', async (method) => {
  const body = method === 'PUT' ? smtp : undefined;
  expect((await project.as('u')(method, '/integrations/smtp', body)).status).toBe(403);
  expect((await fetch(`${service.address}/v2/integrations/smtp`, { method })).status).toBe(401);
});

test('no table, event, log line or error contains a secret', async () => {
  const talkative = await startTestService({ logLevel: 'trace' });
  try {
    for (const [name, integration] of Object.entries(integrations)) {
      const path = `/v2/integrations/${wireNameOf(name, 'service')}`;
      const config = withCanaries(integration.config, integrationConfigs[name as IntegrationName].full);
      const saved = await talkative.request('PUT', path, { token: talkative.project.jwt, body: config });
      expect(saved.status, saved.text).toBe(200);
      const wrong = { ...config, surprise: 1 };
      const refused = await talkative.request('PUT', path, { token: talkative.project.jwt, body: wrong });
      const tried = await talkative.request('PUT', `${path}?verify=true`, {
        token: talkative.project.jwt,
        body: config,
      });
      const gone = await talkative.request('DELETE', path, { token: talkative.project.jwt });
      await talkative.request('PUT', path, { token: talkative.project.jwt, body: config });
      expect([refused.status, gone.status]).toEqual([422, 200]);
      expect([200, 422]).toContain(tried.status);
      for (const { text } of [refused, gone, ...(tried.status === 422 ? [tried] : [])])
        expect(text).not.toContain('canary');
    }
    const dump = await talkative.context.db.query<{ text: string }>(
      sql(
        'test_dump',
        `select i::text as text from integrations i
        union all select encode(sealed_config, 'escape') from integrations
        union all select e::text from events e`,
      ),
    );
    expect(dump.filter(({ text }) => text.includes('integration.saved')).length).toBeGreaterThan(16);
    expect(dump.filter(({ text }) => text.includes('canary'))).toEqual([]);
    expect(talkative.logged.length).toBeGreaterThan(16);
    expect(talkative.logged.filter((line) => line.includes('canary'))).toEqual([]);
  } finally {
    await talkative.stop();
  }
});

test('a project can have five hundred, even with concurrent saves; those can still be changed', async () => {
  const of = await service.createProject('many integrations');
  const save = (id: string) => of.call('PUT', `/integrations/eventsource?id=${id}`, { source: 'shop' });
  const kept = newId();
  expect((await save(kept)).status).toBe(200);
  for (let saved = 1; saved < 480; saved += 40)
    await Promise.all(Array.from({ length: Math.min(40, 480 - saved) }, () => save(newId())));
  const responses = await Promise.all(Array.from({ length: 30 }, () => save(newId())));
  expect(responses.filter(({ status }) => status === 200)).toHaveLength(20);
  const { body } = responses.find(({ status }) => status === 422) ?? {};
  expect(body.errors[0].message).toBe('A project can have at most 500 integrations');
  expect((await save(kept)).status).toBe(200);
  expect((await of.call('DELETE', `/integrations/eventsource?id=${kept}`)).status).toBe(200);
  expect((await save(newId())).status).toBe(200);
});

/** The config with every secret replaced by a recognizable one. */
function withCanaries(schema: TObject, config: object): object {
  const secrets = secretsOf(schema, config as Record<string, unknown>);
  const change = (value: unknown): unknown => {
    if (typeof value === 'object' && value !== null)
      return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, change(member)]));
    if (typeof value !== 'string' || !secrets.includes(value)) return value;
    if (value.startsWith('-----')) return value.replace('\nMII', '\ncanaryMII');
    return `${value.slice(0, Math.max(0, value.length - 6))}canary`;
  };
  return change(config) as object;
}
