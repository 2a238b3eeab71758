import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { startTestService, type TestProject, type TestService } from '../support/service.ts';

let service: TestService;
let project: TestProject;
let made = 0;

beforeAll(async () => {
  service = await startTestService();
});
afterAll(() => service?.stop());
beforeEach(async () => {
  made += 1;
  project = await service.createProject(`definitions ${made}`);
});

const save = (body: unknown) => project.call('PUT', '/workflows', body);
const problems = async (...steps: unknown[]) => {
  const { status, messages } = await save({ key: 'flow', steps });
  expect(status).toBe(422);
  return messages;
};

describe('a workflow', () => {
  const steps = [{ command: 'broadcast', if: null, input: { title: 'Hello' } }, { command: 'teleport' }];

  test('is saved and read as it was sent', async () => {
    const saved = await save({ key: 'my.flow:1', steps });
    expect([saved.status, saved.body]).toEqual([
      200,
      {
        key: 'my.flow:1',
        steps,
        version: 1,
        created_at: expect.any(String),
        updated_at: expect.any(String),
      },
    ]);
    expect((await project.call('GET', '/workflows/my.flow:1')).body).toEqual(saved.body);
    expect((await project.call('GET', '/workflows')).body).toEqual({ items: [saved.body] });
    const again = await save({ ...saved.body, created_at: '2020-01-01T00:00:00Z', version: 7 });
    expect([again.status, again.body]).toEqual([200, saved.body]);
  });

  test('is not found by a pattern, an unknown key or one that cannot be', async () => {
    await save({ key: 'flow', steps });
    for (const key of ['*', 'other', 'flo', '%00', 'a%20b', 'x'.repeat(300)])
      for (const [method, path] of [
        ['GET', ''],
        ['DELETE', ''],
        ['GET', '/versions'],
        ['GET', '/versions/1'],
      ] as const)
        expect([key, path, (await project.call(method, `/workflows/${key}${path}`)).status]).toEqual([
          key,
          path,
          404,
        ]);
  });

  test('has a version for each change of its steps, which can be restored', async () => {
    await save({ key: 'flow', steps });
    expect((await save({ key: 'flow', steps })).body.version).toBe(1);
    expect((await save({ key: 'flow', steps, disabled: true })).body).toMatchObject({
      version: 1,
      disabled: true,
    });
    expect((await save({ key: 'flow', steps: [] })).body).toMatchObject({ version: 2, steps: [] });
    const restored = await project.call('POST', '/workflows/flow/versions/1/restore');
    expect([restored.status, restored.body]).toEqual([200, expect.objectContaining({ version: 3, steps })]);
    expect((await project.call('POST', '/workflows/flow/versions/9/restore')).status).toBe(404);
    const { body } = await project.call('GET', '/workflows/flow/versions');
    expect(body).toEqual({
      items: [3, 2, 1].map((version) => ({ version, created_at: expect.any(String) })),
    });
    expect((await project.call('DELETE', '/workflows/flow')).status).toBe(204);
    for (const [version, of] of [
      [1, steps],
      [2, []],
      [3, steps],
    ])
      expect((await project.call('GET', `/workflows/flow/versions/${version}`)).body).toEqual({
        version,
        created_at: expect.any(String),
        steps: of,
      });
    for (const version of ['4', '0', '-1', '01', '1.0', 'x', '99999999999'])
      expect([version, (await project.call('GET', `/workflows/flow/versions/${version}`)).status]).toEqual([
        version,
        404,
      ]);
    expect((await project.call('DELETE', '/workflows/flow')).status).toBe(404);
    expect((await save({ key: 'flow', steps: [] })).body.version).toBe(4);
  });

  test('is saved by many at once, each change as a version', async () => {
    const bodies = Array.from({ length: 20 }, (_, at) => ({
      key: 'flow',
      steps: [{ command: `c${'x'.repeat(at)}` }],
    }));
    const saved = await Promise.all(bodies.map(save));
    expect(saved.map(({ status }) => status)).toEqual(Array(20).fill(200));
    expect(saved.map(({ body }) => body.version).toSorted((a, b) => a - b)).toEqual(
      Array.from({ length: 20 }, (_, at) => at + 1),
    );
  });
});

test('a workflow with the key events is found, although events are posted to its path', async () => {
  const saved = await save({ key: 'events', steps: [] });
  expect(saved.status).toBe(200);
  expect((await project.call('GET', '/workflows/events')).body).toEqual(saved.body);
  expect((await project.call('HEAD', '/workflows/events')).status).toBe(200);
  expect((await project.call('GET', '/workflows/events/versions')).status).toBe(200);
  const { id } = (await project.call('POST', '/workflows/runs', { key: 'events' })).body;
  expect((await project.call('GET', '/workflows/events/runs')).body.data).toMatchObject([{ id }]);
  expect((await project.call('POST', '/workflows/events', { name: 'order.paid' })).status).toBe(200);
  const other = await project.call('PUT', '/workflows/events', {});
  const allowed = 'GET, HEAD, POST, DELETE, OPTIONS';
  expect([other.status, other.headers.get('allow')]).toEqual([405, allowed]);
  expect((await project.call('OPTIONS', '/workflows/events')).headers.get('allow')).toBe(allowed);
  expect((await project.call('DELETE', '/workflows/events')).status).toBe(204);
  expect((await project.call('GET', '/workflows/events')).status).toBe(404);
});

describe('a mistake is reported with its place:', () => {
  test('the key', async () => {
    for (const key of ['ab', 'a b c', 'runs', '', 7])
      expect([key, (await save({ key, steps: [] })).status]).toEqual([key, 422]);
  });

  test('conditions and templates, also in branches', async () => {
    expect(
      await problems(
        { command: 'broadcast', if: 'user.', input: { title: '{{ user.name', content: '{% if %}' } },
        {
          command: 'branch',
          input: { branches: [{ if: '1 +', steps: [{ command: 'wait', input: { duration: -1 } }] }] },
        },
      ),
    ).toMatchInlineSnapshot(`
      [
        "Param 'steps.0.if' is not a condition: expected a name, found the end",
        "Param 'steps.0.input.title' is not a template: output "{{ user.name" not closed, line:1, col:1",
        "Param 'steps.0.input.content' is not a template: invalid value expression: "", line:1, col:6",
        "Param 'steps.1.input.branches.0.if' is not a condition: it ends too early",
        "Param 'steps.1.input.branches.0.steps.0.input.duration' must be 0 or more",
      ]
    `);
  });

  test('an input that no run can use', async () => {
    const far = { until: '2999-01-01T00:00:00Z' };
    expect(
      await problems(
        { command: 'broadcast' },
        { command: 'broadcast', input: { content: 'x', template: null, recipients: [{ external_id: '1' }] } },
        { command: 'broadcast', input: { title: 'Hi {{ user.first_name }}', template: { key: 'hello' } } },
        { command: 'broadcast', input: { title: 'Hi', recipients: [{ topic: { subscribers: true } }] } },
        { command: 'broadcast', input: { title: 'Hi', send_at: '2999-01-01T00:00:00Z' } },
        { command: 'http', input: { url: 'ftp://example.com/file' } },
        { command: 'http', input: { url: 'http://u:p@example.com/' } },
        {
          command: 'http',
          input: {
            url: 'https://example.com/',
            headers: { Host: '{{ input.host }}', 'Content-Length': '1' },
          },
        },
        { command: 'branch', input: { branches: [{ steps: [{ command: 'wait', input: far }] }] } },
        { command: 'digest', input: { window: 100, max_window: 10 } },
      ),
    ).toMatchInlineSnapshot(`
      [
        "Param 'steps.0.input.title' is missing",
        "Param 'steps.1.input.title' is missing",
        "Param 'steps.2.input.title' is not allowed with a template",
        "Param 'steps.3.input.topic' is missing: recipients.0 are its subscribers",
        "Param 'steps.4.input.send_at' must be within the next 400 days",
        "Param 'steps.5.input.url' must begin with https:// or http://",
        "Param 'steps.6.input.url' must not contain a password: put credentials into headers",
        "Param 'steps.7.input.headers' doesn't allow key: Host, which Belfry sets itself",
        "Param 'steps.7.input.headers' doesn't allow key: Content-Length, which Belfry sets itself",
        "Param 'steps.8.input.branches.0.steps.0.input.until' must be within the next 400 days",
        "Param 'steps.9.input.max_window' must not be less than 'window'",
      ]
    `);
  });

  test('names of headers that are not allowed, and spaces in addresses', async () => {
    const http = (url: string, headers: object) => ({ command: 'http', input: { url, headers } });
    expect(
      await problems(
        http('https://example.com/', { 'a b': 'x', ok: 'x' }),
        http('https://example.com/?q=a b', {}),
        http('https://example.com/', { Expect: '100-continue', 'Keep-Alive': 'timeout=5' }),
      ),
    ).toEqual([
      "Param 'steps.0.input.headers' doesn't allow key: a b, which must match the pattern " +
        "^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$",
      "Param 'steps.1.input.url' must be an absolute URI without spaces: encode them as %20",
      "Param 'steps.2.input.headers' doesn't allow key: Expect, which Belfry sets itself",
      "Param 'steps.2.input.headers' doesn't allow key: Keep-Alive, which Belfry sets itself",
    ]);
  });

  test('but not the values that templates make', async () => {
    const template = '{{ input.any }}';
    const steps = [
      { command: 'broadcast', input: { title: template, send_at: template } },
      { command: 'broadcast', input: { template } },
      { command: 'broadcast', input: { template: { key: template } } },
      { command: 'http', input: { url: 'ftp://{{ input.host }}', headers: template } },
      { command: 'wait', input: { until: template } },
      { command: 'wait', input: { until: '2000-01-01T00:00:00Z' } },
      { command: 'digest', input: { window: template, max_window: 10 } },
    ];
    expect((await save({ key: 'flow', steps })).status).toBe(200);
  });

  test('variables that do not exist', async () => {
    const messages = await problems(
      { command: 'broadcast', if: 'notification.unsen', input: { title: 'Hi {{ user.fist_name }}' } },
      {
        command: 'set',
        if: 'user.email.domain == "x"',
        input: { list: ['{{ foo.bar }}', '{{ user.email }}'] },
      },
      {
        command: 'set',
        if: 'steps[0].output.id == steps[2].output.id',
        input: { a: '{{ steps[7].state }}' },
      },
      {
        command: 'branch',
        input: {
          branches: [
            {
              if: 'steps[3].state == ""',
              steps: [
                {
                  command: 'set',
                  input: { a: '{{ steps[3].output.branch }}{{ steps[3].steps[0].state }}' },
                },
                { command: 'set', if: 'steps[3].steps[0].stat == steps[3].steps[1].state' },
              ],
            },
          ],
        },
      },
      { command: 'set', input: { a: '{{ steps[3].steps[1].state }}{{ steps[3].steps[2].state }}' } },
      { command: 'abort', if: 'run.key == "a"', input: { reason: '{{ run.data.any }}{{ usr.id }}' } },
    );
    expect(
      messages.map((message: string) => message.split(', which does not exist: ')),
    ).toMatchInlineSnapshot(`
      [
        [
          "Param 'steps.0.if' reads notification.unsen",
          "did you mean notification.unseen?",
        ],
        [
          "Param 'steps.0.input.title' reads user.fist_name",
          "did you mean user.first_name?",
        ],
        [
          "Param 'steps.1.if' reads user.email.domain",
          "user.email has no members",
        ],
        [
          "Param 'steps.1.input.list.0' reads foo",
          "known are input, user, notification, run, steps",
        ],
        [
          "Param 'steps.2.if' reads steps[2]",
          "the last one here is steps[1]",
        ],
        [
          "Param 'steps.2.input.a' reads steps[7]",
          "the last one here is steps[1]",
        ],
        [
          "Param 'steps.3.input.branches.0.if' reads steps[3]",
          "the last one here is steps[2]",
        ],
        [
          "Param 'steps.3.input.branches.0.steps.0.input.a' reads steps[3].steps[0]",
          "steps[3].steps is empty here",
        ],
        [
          "Param 'steps.3.input.branches.0.steps.1.if' reads steps[3].steps[0].stat",
          "did you mean steps[3].steps[0].state?",
        ],
        [
          "Param 'steps.3.input.branches.0.steps.1.if' reads steps[3].steps[1]",
          "the last one here is steps[3].steps[0]",
        ],
        [
          "Param 'steps.4.input.a' reads steps[3].steps[2]",
          "the last one here is steps[3].steps[1]",
        ],
        [
          "Param 'steps.5.if' reads run.key",
          "known are id, workflow_key, version, created_at, data",
        ],
        [
          "Param 'steps.5.input.reason' reads usr",
          "did you mean user?",
        ],
      ]
    `);
  });

  test('no variables that a template assigns or that are open', async () => {
    const { status, messages } = await save({
      key: 'flow',
      steps: [
        {
          command: 'set',
          if: 'input.tags.all(user, user.any == 1) && has(user.custom_attributes.a.b)',
          input: {
            a: '{% assign x = user.email %}{{ x.y }}{% capture z %}{{ x }}{% endcapture %}{{ z }}',
            b: '{% for one in input.list %}{{ forloop.index }}{{ one.a.b }}{% endfor %}',
            b2: '{% increment n %}{{ n }}',
            c: '{% tablerow t in user.phone_numbers %}{{ tablerowloop.col }}{{ t }}{% endtablerow %}',
            d: '{{ input.list | where: "a", input.b | map: "c" | first }}',
            d2: '{{ user.first_name.size }}{{ empty }}',
            e: '{{ user["first_name"] }}{{ user[input.name] }}{{ input["a b"].c }}',
            e2: '{{ true }}{{ nil }}{{ "x.y" }}',
          },
        },
        { command: 'set', if: 'steps[0].output.a == run.data.b', input: { n: '{{ steps.first.output.a }}' } },
        { command: 'set', if: "{{ user.custom_attributes.a.b }} == 'x' && steps.exists(s, s.state == '')" },
      ],
    });
    expect([status, messages]).toEqual([200, []]);
  });

  test('inputs of commands, except for values that templates make', async () => {
    expect(
      await problems(
        { command: 'wait', input: {} },
        { command: 'wait', input: { duration: 1, until: '2020-01-01T00:00:00Z' } },
        { command: 'wait', input: { until: 'tomorrow' } },
        { command: 'wait', input: { duration: '{{ input.seconds }}' } },
        { command: 'broadcast', input: { recipients: '{{ input.to }}', title: 7 } },
        { command: 'http', input: { url: 'nowhere', method: 'FETCH' } },
        { command: 'abort', input: { why: 'x' } },
        { command: 'branch', input: { branches: [] } },
        { command: 'update_user', input: { plan: 'x' } },
      ),
    ).toMatchInlineSnapshot(`
      [
        "Param 'steps.0.input' needs either a duration, an until or a delivery_window",
        "Param 'steps.1.input' needs either a duration, an until or a delivery_window",
        "Param 'steps.2.input.until' must be a date and time as in 2026-01-31T12:00:00Z",
        "Param 'steps.4.input.title' must be a string",
        "Param 'steps.5.input.url' must be an absolute URI",
        "Param 'steps.5.input.method' must be one of: GET, POST, PUT, PATCH, DELETE",
        "Param 'steps.6.input' doesn't allow key: why",
        "Param 'steps.7.input.branches' must have at least 1 item",
        "Param 'steps.8.input' doesn't allow key: plan",
      ]
    `);
  });

  test('more than 16 MiB of steps in all workflows', async () => {
    const steps = Array.from({ length: 4 }, () => ({ command: 'set', input: { text: 'x'.repeat(65_000) } }));
    const keys = Array.from({ length: 65 }, (_, n) => `long-${n}`);
    const refused = [];
    for (const key of keys) refused.push((await save({ key, steps })).messages);
    expect(refused.flat().filter(Boolean)).toEqual([
      "Param 'steps' is too long: the steps of all workflows can have at most 16777216 characters",
    ]);
    // One that is there already can be saved again, and the others can be read.
    expect((await save({ key: 'long-0', disabled: true, steps })).status).toBe(200);
    expect((await project.call('GET', '/workflows')).body.items).toHaveLength(64);
  });

  test('more than a thousand workflows', async () => {
    await service.rows(
      `insert into workflows (project_id, key, version, disabled, size, created_at, updated_at)
        select $1, 'many-' || n, 1, false, 2, now(), now() from generate_series(1, 999) as n`,
      [project.id],
    );
    expect((await save({ key: 'the-last', steps: [] })).status).toBe(200);
    expect((await save({ key: 'one-more', steps: [] })).messages).toEqual([
      "Param 'key' cannot be added: a project can have at most 1000 workflows",
    ]);
    expect((await save({ key: 'the-last', steps: [{ command: 'pause' }] })).status).toBe(200);
  });

  test('too many steps or levels', async () => {
    let steps: unknown[] = [{ command: 'pause' }];
    for (let level = 0; level < 6; level += 1)
      steps = [{ command: 'branch', input: { branches: [{ steps }] } }];
    const path = Array.from({ length: 5 }, () => '0.input.branches.0.steps').join('.');
    expect(await problems(...steps)).toEqual([`Param 'steps.${path}' is nested in more than 5 levels`]);
    const hundred = Array.from({ length: 100 }, () => ({ command: 'pause' }));
    const branches = Array.from({ length: 6 }, () => ({ steps: hundred }));
    expect(await problems({ command: 'branch', input: { branches } })).toMatchInlineSnapshot(`
      [
        "Param 'steps' has more than 500 steps in all",
      ]
    `);
  });
});
