import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sql } from '../src/db/client.ts';
import { newId } from '../src/lib/ids.ts';
import { createSealer } from '../src/lib/seal.ts';
import { startTestService, type TestProject, type TestService } from './support/service.ts';

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

  test('several have ids of their own; who was saved first goes first, whatever the id', async () => {
    const other = await service.createProject('several');
    const [first, second] = ['ffffffff-0000-7000-8000-000000000000', '00000000-0000-7000-8000-000000000000'];
    await other.call('PUT', `/integrations/smtp?id=${first.toUpperCase()}`, { ...smtp, host: 'one.example' });
    await other.call('PUT', `/integrations/smtp?id=${second}`, { ...smtp, host: 'two.example' });
    await other.call('PUT', '/integrations/smtp', { ...smtp, host: 'three.example' });
    expect(await inUse(other)).toEqual([
      [first, 'three.example'],
      [second, 'two.example'],
    ]);
    expect((await configsOf(other)).map((one) => one.id)).toEqual([first, second]);
    expect((await other.call('DELETE', `/integrations/smtp?id=${first}`)).status).toBe(200);
    expect(await inUse(other)).toEqual([[second, 'two.example']]);
    expect((await other.call('DELETE', `/integrations/smtp?id=${first}`)).status).toBe(404);
  });

  test('an id that another project has is as good as a new one, and theirs stays as it is', async () => {
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

  test('first saves at the same time make one integration', async () => {
    const other = await service.createProject('at once');
    await Promise.all(Array.from({ length: 8 }, () => other.call('PUT', '/integrations/smtp', smtp)));
    expect(await configsOf(other)).toHaveLength(1);
  });

  test('a config whose key is lost is shown empty and does not hold up the others', async () => {
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
    expect(list.body.data.map((one: { config: object }) => Object.keys(one.config).length)).toEqual([5, 0]);
    expect((await inUse(other)).map(([, host]) => host)).toEqual(['works.example']);
    expect((await other.call('PUT', `/integrations/smtp?id=${id}`, smtp)).status).toBe(200);
    expect((await inUse(other)).map(([, host]) => host)).toEqual(['mail.example', 'works.example']);
  });

  test('refuses a wrong config with every problem, and keeps nothing of it', async () => {
    const other = await service.createProject('wrong');
    const { status, body } = await other.call('PUT', '/integrations/smtp', {
      port: 70_000,
      username: 'u',
      password: 1,
      from: { email: 'nobody', more: 1 },
      security: 'some',
    });
    expect(status).toBe(422);
    const said = body.errors.map((error: { message: string }) => error.message).join('\n');
    for (const name of ['host', 'port', 'password', 'from.email', 'more', 'security']) {
      expect(said).toContain(name);
    }
    expect(await configsOf(other)).toEqual([]);
    expect((await other.call('PUT', '/integrations/smtp?id=nonsense', smtp)).status).toBe(422);
  });
});

test('an inbox config always has its three keys', async () => {
  const saved = await project.call('PUT', '/integrations/inbox', { locale: 'de' });
  expect([saved.status, saved.body]).toEqual([200, { images: null, locale: 'de', theme: null }]);
  const { body } = await project.call('GET', '/integrations/inbox');
  expect(body.data).toMatchObject([{ name: 'inbox', config: { images: null, locale: 'de', theme: null } }]);
  expect((await project.call('DELETE', '/integrations/inbox')).body).toEqual({});
});

test("an inbox theme comes back as it was saved; its banner's opacity is a number, which is all that clients take", async () => {
  const banner = (backgroundOpacity: unknown) => ({
    theme: { banner: { backgroundColor: '#fff', backgroundOpacity, fontSize: '1em', textColor: '#000' } },
  });
  const saved = await project.call('PUT', '/integrations/inbox', banner(0.4));
  expect([saved.status, saved.body.theme]).toEqual([200, banner(0.4).theme]);
  expect((await project.call('PUT', '/integrations/inbox', banner('0.4'))).status).toBe(422);
  await project.call('DELETE', '/integrations/inbox');
});

test.each(['PUT', 'GET', 'DELETE'])('%s is for the Project JWT alone', async (method) => {
  const body = method === 'PUT' ? smtp : undefined;
  expect((await project.as('u')(method, '/integrations/smtp', body)).status).toBe(403);
  expect((await fetch(`${service.address}/v2/integrations/smtp`, { method })).status).toBe(401);
});

test('a secret stands in no table, event or error', async () => {
  await project.call('PUT', '/integrations/smtp', smtp);
  const refused = await project.call('PUT', '/integrations/smtp', { ...smtp, port: 0 });
  expect(JSON.stringify(refused.body)).not.toContain('canary');
  const dump = await service.context.db.query<{ text: string }>(
    sql(
      'test_dump',
      `select i::text as text from integrations i
      union all select encode(sealed_config, 'escape') from integrations
      union all select e::text from events e`,
    ),
  );
  expect(dump.some(({ text }) => text.includes('integration.saved'))).toBe(true);
  expect(dump.filter(({ text }) => text.includes('canary'))).toEqual([]);
});
