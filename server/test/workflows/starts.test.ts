import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sql } from '../../src/db/client.ts';
import { startTestService, type TestProject, type TestService } from '../support/service.ts';
import { ended, STATE } from '../support/workflows.ts';

// Single starts that arrive together share a transaction.

const SENT_TOGETHER = 30;

let service: TestService;
let project: TestProject;

beforeAll(async () => {
  service = await startTestService();
  project = await service.createProject('starts');
  await project.call('PUT', '/workflows', { key: 'flow', steps: [] });
  await project.call('PUT', '/workflows', { key: 'off', disabled: true, steps: [] });
});
afterAll(() => service?.stop());

const start = (
  key: string,
  {
    input = {},
    idempotencyKey,
    by = project,
  }: { input?: object; idempotencyKey?: string; by?: TestProject } = {},
) =>
  by.call(
    'POST',
    '/workflows/runs',
    { key, input },
    idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey },
  );
const userNamed = (id: string) => project.call('GET', `/users/external_id:${id}`);

describe('starts that arrive together', () => {
  test('have the results that they would have alone', async () => {
    const other = await service.createProject('others');
    await other.call('PUT', '/workflows', { key: 'theirs', steps: [] });
    const responses = await Promise.all(
      Array.from({ length: SENT_TOGETHER }, (_, at) => [
        start('flow', { input: { at, user: { external_id: `u${at}` } } }),
        start('off', { input: { user: { external_id: 'stranger' } } }),
        start('theirs', { input: { user: { external_id: 'stranger' } } }),
        start('theirs', { by: other }),
        start('flow', { input: { user: { id: 'none', email: 'not an address' } } }),
      ]).flat(),
    );
    expect(responses.map(({ status }) => status)).toEqual(
      Array.from({ length: SENT_TOGETHER }, () => [200, 422, 404, 200, 200]).flat(),
    );
    const ids = responses.flatMap(({ body }) => body.id ?? []);
    expect(new Set(ids).size).toBe(3 * SENT_TOGETHER);
    for (const at of [0, 7, SENT_TOGETHER - 1]) {
      const run = await ended(project, responses[5 * at]?.body.id);
      expect(run).toMatchObject({
        input: { at },
        user_id: (await userNamed(`u${at}`)).body.id,
        status: { state: STATE.completed },
      });
    }
    expect(await ended(other, responses[3]?.body.id)).not.toHaveProperty('user_id');
    expect((await userNamed('stranger')).status).toBe(404);
  });

  test('do not find users of another project by their id', async () => {
    const other = await service.createProject('strangers');
    const { body: stranger } = await other.call('PUT', '/users', { external_id: 'outsider' });
    const { body: own } = await project.call('PUT', '/users', { external_id: 'own' });
    const [first, second] = await Promise.all(
      [stranger, own].map(({ id }) => start('flow', { input: { user: { id } } })),
    );
    expect(await ended(project, first?.body.id)).not.toHaveProperty('user_id');
    expect((await ended(project, second?.body.id)).user_id).toBe(own.id);
  });

  test('do not fail with one that the database rejects', async () => {
    const { db } = service.context;
    await project.call('PUT', '/workflows', { key: 'rejected', steps: [] });
    await db.query(
      sql('', `alter table workflow_runs add constraint test_only check (workflow_key <> 'rejected')`),
    );
    try {
      const keys = Array.from({ length: SENT_TOGETHER }, (_, at) => (at === 11 ? 'rejected' : 'flow'));
      const statuses = (await Promise.all(keys.map((key) => start(key)))).map(({ status }) => status);
      expect(statuses).toEqual(keys.map((key) => (key === 'flow' ? 200 : 500)));
    } finally {
      await db.query(sql('', 'alter table workflow_runs drop constraint test_only'));
    }
  });
});

describe('starts under an Idempotency-Key', () => {
  const runsOf = async (key: string) =>
    (await project.call('GET', `/workflows/${key}/runs?limit=100`)).body.data.length;
  const replayed = ({ headers }: { headers: Headers }) => headers.get('idempotency-replayed');

  test('start one run if they arrive together', async () => {
    await project.call('PUT', '/workflows', { key: 'keyed', steps: [] });
    const starts = await Promise.all(
      Array.from({ length: SENT_TOGETHER }, (_, at) =>
        start('keyed', { idempotencyKey: `together-${at % 3}` }),
      ),
    );
    expect(new Set(starts.map(({ status }) => status))).toEqual(new Set([200]));
    expect(new Set(starts.map(({ body }) => body.id)).size).toBe(3);
    expect(starts.filter((one) => replayed(one) === null)).toHaveLength(3);
    expect(await runsOf('keyed')).toBe(3);
  });

  test('repeat a rejection, and reject another request', async () => {
    const first = await start('later', { idempotencyKey: 'too-early' });
    await project.call('PUT', '/workflows', { key: 'later', steps: [] });
    const second = await start('later', { idempotencyKey: 'too-early' });
    expect([first.status, replayed(first), second.status, replayed(second)]).toEqual([
      404,
      null,
      404,
      'true',
    ]);
    expect(second.body).toEqual(first.body);
    const off = [
      await start('off', { idempotencyKey: 'off' }),
      await start('off', { idempotencyKey: 'off' }),
    ];
    expect(off.map((one) => [one.status, one.messages, replayed(one)])).toEqual([
      [422, ["Param 'key' names a workflow that is disabled"], null],
      [422, ["Param 'key' names a workflow that is disabled"], 'true'],
    ]);
    expect((await start('flow', { idempotencyKey: 'off' })).status).toBe(409);
    expect(await runsOf('later')).toBe(0);
  });

  test('leave the key unused if the start fails', async () => {
    const { db } = service.context;
    await project.call('PUT', '/workflows', { key: 'flaky', steps: [] });
    await db.query(
      sql('', `alter table workflow_runs add constraint test_only check (workflow_key <> 'flaky')`),
    );
    const failed = await start('flaky', { idempotencyKey: 'flaky' });
    await db.query(sql('', 'alter table workflow_runs drop constraint test_only'));
    const started = await start('flaky', { idempotencyKey: 'flaky' });
    expect([failed.status, started.status, replayed(started)]).toEqual([500, 200, null]);
  });
});
