import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sql } from '../../src/db/client.ts';
import { advance } from '../../src/domain/workflows/engine/advance.ts';
import { loadStarts } from '../../src/domain/workflows/engine/load-starts.ts';
import { newRun } from '../../src/domain/workflows/runs/start.ts';
import { startTestService, type TestProject, type TestService, until } from '../support/service.ts';
import { ended, inState, runOf, STATE, stepsOf } from '../support/workflows.ts';

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
        start('flow', { input: { user: { id: project.id } } }),
      ]).flat(),
    );
    expect(responses.map(({ status }) => status)).toEqual(
      Array.from({ length: SENT_TOGETHER }, () => [200, 422, 404, 200, 422]).flat(),
    );
    const ids = responses.flatMap(({ body }) => body.id ?? []);
    expect(new Set(ids).size).toBe(2 * SENT_TOGETHER);
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
    expect(first?.messages).toEqual(["Param 'input.user.id' names no user, or one that is deleted"]);
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

describe('the first turn of a run', () => {
  const hello = { command: 'broadcast', input: { title: 'Hello {{ user.first_name }}' } };
  const titles = async (user: string) =>
    (await project.as(user)('GET', '/notifications')).body.data.map(({ title }: { title: string }) => title);
  const save = (key: string, steps: readonly object[]) => project.call('PUT', '/workflows', { key, steps });
  const withoutRunsOf = async (key: string, work: () => Promise<void>) => {
    await service.rows(`alter table workflow_runs add constraint test_only check (workflow_key <> '${key}')`);
    try {
      await work();
    } finally {
      await service.rows('alter table workflow_runs drop constraint test_only');
    }
  };

  test('of a known user is committed with the run, with what it sends', async () => {
    await project.call('PUT', '/users', { external_id: 'known', first_name: 'Ada' });
    const wait = { command: 'wait', input: { duration: 3_600 } };
    await save('begins', [{ command: 'set', input: { a: 1 } }, hello, wait, hello]);
    const { body } = await start('begins', { input: { user: { external_id: 'known' } } });
    const run = await inState(project, body.id, STATE.waiting);
    expect(stepsOf(run)).toEqual(['0 set completed', '1 broadcast completed', '2 wait waiting']);
    // Written by one transaction.
    const written = await service.rows<{ steps: number; broadcasts: number }>(
      `select count(*)::int as steps, count(b.id)::int as broadcasts
      from workflow_runs r
      join workflow_run_steps s on s.run_id = r.id and s.place = '1'
      left join broadcasts b on b.id = r.broadcast_id and b.xmin = s.xmin
      where r.id = $1`,
      [body.id],
    );
    expect(written).toEqual([{ steps: 1, broadcasts: 1 }]);
    expect(await titles('known')).toEqual(['Hello Ada']);
    const { body: events } = await project.call('GET', '/events?type=workflow.run.*&limit=3');
    expect(
      events.data.map(({ type, payload }: { type: string; payload?: object }) => [type, payload]),
    ).toEqual([
      ['workflow.run.step', { place: '1', command: 'broadcast', state: 'completed' }],
      ['workflow.run.step', { place: '0', command: 'set', state: 'completed' }],
      ['workflow.run.started', undefined],
    ]);
  });

  test('is listed in order: the start of the run, what it sends, then its end', async () => {
    const own = await service.createProject('order');
    await own.call('PUT', '/users', { external_id: 'ada', first_name: 'Ada' });
    await own.call('PUT', '/workflows', { key: 'sends', steps: [hello] });
    const { body } = await start('sends', { input: { user: { external_id: 'ada' } }, by: own });
    await ended(own, body.id);
    const ofRun = /^(workflow\.run|broadcast|delivery|notification)\./;
    const listed = async () =>
      (await own.call('GET', '/events?limit=100')).body.data
        .map(({ type }: { type: string }) => type)
        .filter((type: string) => ofRun.test(type))
        .toReversed();
    expect(await until(listed, (types) => types.includes('broadcast.processed'))).toEqual([
      'workflow.run.started',
      'broadcast.created',
      'notification.created',
      'delivery.sent',
      'broadcast.processed',
      'workflow.run.step',
      'workflow.run.completed',
    ]);
  });

  test('sends nothing and changes no user if the run is not stored', async () => {
    const { body: user } = await project.call('PUT', '/users', { external_id: 'left', first_name: 'Bob' });
    await save('refused', [hello, { command: 'update_user', input: { first_name: 'Eve' } }]);
    await save('changes', [{ command: 'update_user', input: { first_name: 'Eve' } }]);
    for (const key of ['refused', 'changes'])
      await withoutRunsOf(key, async () => {
        const { status } = await start(key, { input: { user: { id: user.id } } });
        expect(status).toBe(500);
      });
    expect(await titles('left')).toEqual([]);
    expect((await userNamed('left')).body.first_name).toBe('Bob');
    const { body } = await start('refused', { input: { user: { id: user.id } } });
    expect(stepsOf(await ended(project, body.id))).toEqual([
      '0 broadcast completed',
      '1 update_user completed',
    ]);
    expect((await userNamed('left')).body.first_name).toBe('Eve');
    expect(await titles('left')).toEqual(['Hello Bob']);
  });

  test('passes a throttle or joins a digest once if another start makes the commit fail', async () => {
    await save('no-row', []);
    await save('passes', [{ command: 'throttle', input: { limit: 100, window: 3_600 } }, hello]);
    await save('joins', [{ command: 'digest', input: { window: 3_600 } }, hello]);
    const user = { external_id: 'repeated', first_name: 'Rae' };
    await project.call('PUT', '/users', user);
    const input = { user: { external_id: user.external_id } };
    await withoutRunsOf('no-row', async () => {
      const keys = Array.from({ length: SENT_TOGETHER }, (_, at) => (at % 2 === 0 ? 'passes' : 'joins'));
      const starts = await Promise.all([...keys, 'no-row'].map((key) => start(key, { input })));
      expect(starts.map(({ status }) => status)).toEqual([...keys.map(() => 200), 500]);
      const ids = (key: string) => starts.flatMap(({ body }, at) => (keys[at] === key ? body.id : []));
      for (const id of ids('passes'))
        expect(stepsOf(await ended(project, id))).toEqual(['0 throttle completed', '1 broadcast completed']);
      const joined = await Promise.all(ids('joins').map((id) => runOf(project, id)));
      expect(joined.map(stepsOf).toSorted()).toEqual([
        ...Array(SENT_TOGETHER / 2 - 1).fill(['0 digest completed']),
        ['0 digest waiting'],
      ]);
    });
    expect(await titles('repeated')).toEqual(Array(SENT_TOGETHER / 2).fill('Hello Rae'));
  });

  test('has the same end each time that the result of a throttle is applied', async () => {
    const throttle = { command: 'throttle', input: { limit: 1, window: 60 } };
    await save('again', [{ command: 'set', input: { a: 1 } }, throttle, hello, hello]);
    const { context } = service.http;
    const [loaded] = await loadStarts(context, [newRun(project.id, 'again', {})]);
    if (loaded === undefined || 'refusal' in loaded) throw new Error('the run cannot start');
    const turn = await advance(context, loaded.run, 'start');
    const decided = [1, 2].map(() => turn.shared?.decide({ kind: 'done', output: { passed: true } }));
    expect(decided[1]).toEqual(decided[0]);
    expect(decided.map((one) => [one?.place, one?.steps.map(({ place }) => place)])).toEqual([
      ['2', ['0', '1']],
      ['2', ['0', '1']],
    ]);
    expect([turn.place, turn.steps.map(({ place }) => place)]).toEqual(['1', ['0']]);
  });

  test('sends once if the key was used before', async () => {
    await project.call('PUT', '/users', { external_id: 'once', first_name: 'Once' });
    await save('once', [hello]);
    const input = { user: { external_id: 'once' } };
    const together = await Promise.all(
      Array.from({ length: 10 }, () => start('once', { input, idempotencyKey: 'once' })),
    );
    const later = await start('once', { input, idempotencyKey: 'once' });
    expect(new Set([...together, later].map(({ body }) => body.id)).size).toBe(1);
    expect(await titles('once')).toEqual(['Hello Once']);
  });

  test('ends after a while, and a worker continues the run', async () => {
    const busy = '{% for a in (1..200) %}{% for b in (1..100) %}{% endfor %}{% endfor %}';
    await save(
      'long',
      Array.from({ length: 100 }, (_, at) => ({ command: 'set', input: { [`n${at}`]: `${busy}${at}` } })),
    );
    const { body } = await start('long');
    const run = await ended(project, body.id);
    expect([run.status.state, run.steps.length]).toEqual([STATE.completed, 100]);
    const [{ turn } = { turn: 0 }] = await service.rows<{ turn: number }>(
      'select turn from workflow_runs where id = $1',
      [body.id],
    );
    expect(turn).toBeGreaterThan(1);
  });

  test('may collect, and pass a throttle, with other runs', async () => {
    await save('collects', [{ command: 'digest', input: { window: 3_600 } }, hello]);
    await save('throttled', [{ command: 'throttle', input: { limit: 2, window: 3_600 } }]);
    const all = await Promise.all(
      Array.from({ length: 10 }, (_, at) => [
        start('collects', { input: { at } }),
        start('throttled', { input: { at } }),
      ]).flat(),
    );
    const left = () =>
      service.rows("select from workflow_runs where workflow_key in ('collects', 'throttled') and state < 2");
    await until(left, (runs) => runs.length === 0);
    const runs = await Promise.all(all.map(({ body }) => runOf(project, body.id)));
    const states = (key: string) =>
      runs
        .filter((run) => run.workflow_key === key)
        .map((run) => run.status.state as number)
        .toSorted();
    expect(states('collects')).toEqual([STATE.waiting, ...Array(9).fill(STATE.completed)]);
    expect(states('throttled')).toEqual([...Array(2).fill(STATE.completed), ...Array(8).fill(STATE.aborted)]);
  });
});
