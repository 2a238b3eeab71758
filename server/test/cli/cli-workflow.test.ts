import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { fileNames } from '../../src/cli/workflow-files.ts';
import { type Ended, Output, runCommand } from '../support/cli.ts';
import { startTestService, type TestService } from '../support/service.ts';
import { belfryOnTerminal, hasTerminals } from '../support/terminal.ts';
import { inState, STATE } from '../support/workflows.ts';

let service: TestService;
let base: string;
let folder: string;
let made = 0;

beforeAll(async () => {
  service = await startTestService();
  base = await mkdtemp(join(tmpdir(), 'belfry-cli-workflow-'));
});
afterAll(async () => {
  await service?.stop();
  await rm(base, { recursive: true, force: true });
});
beforeEach(async () => {
  made += 1;
  folder = join(base, String(made));
  await mkdir(folder);
  for (const { key } of await saved()) await service.project.call('DELETE', `/workflows/${key}`);
});

const run = (...args: string[]): Promise<Ended> =>
  runCommand(['workflow', ...args, '--url', service.address, '--jwt', service.project.jwt]);
const save = (key: string, steps: unknown[] = [], more: object = {}) =>
  service.project.call('PUT', '/workflows', { key, steps, ...more });
const saved = async (): Promise<{ key: string; version: number; steps: unknown[] }[]> =>
  (await service.project.call('GET', '/workflows')).body.items;
const keys = async () => (await saved()).map(({ key }) => key);
const write = (name: string, definition: unknown) =>
  writeFile(
    join(folder, name),
    typeof definition === 'string' ? definition : `${JSON.stringify(definition, null, 2)}\n`,
  );
const pause = { command: 'pause' };

test('pull writes a file for each workflow, and push finds nothing to change', async () => {
  await save('onboarding', [{ command: 'wait', input: { duration: 5 } }]);
  await save('a:b', [], { disabled: true });
  await save('...');
  expect(await run('pull', folder)).toMatchObject({ code: 0, err: '' });
  const names = (await readdir(folder)).sort();
  expect(names).toEqual([
    expect.stringMatching(/^_~\w{8}\.json$/),
    expect.stringMatching(/^a_b~\w{8}\.json$/),
    'onboarding.json',
  ]);
  expect(await readFile(join(folder, 'onboarding.json'), 'utf8')).toBe(`{
  "key": "onboarding",
  "steps": [
    {
      "command": "wait",
      "input": {
        "duration": 5
      }
    }
  ]
}
`);
  expect(JSON.parse(await readFile(join(folder, names[1] ?? ''), 'utf8'))).toEqual({
    key: 'a:b',
    disabled: true,
    steps: [],
  });
  expect(await run('push', folder)).toEqual({
    code: 0,
    err: '',
    out: '0 to save, 0 to delete, 3 unchanged\n',
  });

  // A file keeps its name, and one that is not in the project stays.
  await rename(join(folder, 'onboarding.json'), join(folder, 'renamed.json'));
  await write('mine.json', { key: 'mine', steps: [] });
  await save('onboarding', [pause]);
  expect(await run('pull', folder, '--force')).toEqual({
    code: 0,
    err: '',
    out:
      `changed  ${join(folder, 'renamed.json')}\n` +
      `kept     ${join(folder, 'mine.json')}: not in the project\n3 workflows, 2 unchanged\n`,
  });
  expect(await readdir(folder)).toHaveLength(4);
});

test('pull replaces no file that differs, and writes nothing then, without --force', async () => {
  for (const key of ['edited', 'fresh', 'older', 'reformatted']) await save(key, [pause]);
  const own = { key: 'edited', steps: [pause, pause] };
  await write('renamed.json', { key: 'older', steps: [] });
  await write('edited.json', own);
  // Another format of the same content is no difference.
  await write('reformatted.json', '{"steps": [{"command": "pause"}], "key": "reformatted"}');
  const [edited, renamed] = ['edited.json', 'renamed.json'].map((name) => join(folder, name));
  const advice = 'differs from the project: save it with push, or replace it with --force';
  for (const more of [[], ['--json']]) {
    const { code, out, err } = await run('pull', folder, ...more);
    expect([code, out]).toEqual([1, '']);
    for (const file of [edited, renamed]) expect(err).toContain(`${file} ${advice}`);
    expect(err).not.toContain('reformatted.json');
  }
  expect((await readdir(folder)).sort()).toEqual(['edited.json', 'reformatted.json', 'renamed.json']);
  expect(JSON.parse(await readFile(join(folder, 'edited.json'), 'utf8'))).toEqual(own);
  const lines = [
    `changed  ${edited}`,
    `created  ${join(folder, 'fresh.json')}`,
    `changed  ${renamed}`,
    '4 workflows, 1 unchanged\n',
  ];
  expect(await run('pull', folder, '--force')).toMatchObject({ code: 0, out: lines.join('\n') });
  expect(await run('pull', folder)).toMatchObject({ code: 0, out: '4 workflows, 4 unchanged\n' });
});

test('pull never replaces the file of another workflow', async () => {
  await save('taken', [pause]);
  await write('taken.json', { key: 'other', steps: [] });
  for (const more of [[], ['--force']]) {
    const { code, err } = await run('pull', folder, ...more);
    expect(code).toBe(1);
    expect(err).toContain(`${join(folder, 'taken.json')} has the workflow other, not taken: rename the file`);
  }
  expect(JSON.parse(await readFile(join(folder, 'taken.json'), 'utf8')).key).toBe('other');
});

test('pull counts a single workflow as one', async () => {
  await save('only');
  expect((await run('pull', folder)).out).toContain('\n1 workflow, 0 unchanged\n');
});

test('pull and push print their results as JSON', async () => {
  await save('first', [pause]);
  const json = async (...args: string[]) => {
    const { code, err, out } = await run(...args, '--json');
    expect({ code, err }).toEqual({ code: 0, err: '' });
    return JSON.parse(out);
  };
  const file = join(folder, 'first.json');
  expect(await json('pull', folder)).toEqual({
    written: [{ key: 'first', file, change: 'created' }],
    kept: [],
    unchanged: 0,
  });
  await write('first.json', { key: 'first', steps: [] });
  await write('second.json', { key: 'second', steps: [] });
  await save('other');
  expect(await run('push', folder, '--json')).toMatchObject({
    code: 2,
    out: '',
    err: expect.stringContaining('use --yes or --dry-run'),
  });
  const pushed = (versions: (number | null)[], more: object) => ({
    saved: [
      { key: 'first', change: 'changed', version: versions[0] },
      { key: 'second', change: 'created', version: versions[1] },
    ],
    unchanged: 0,
    ...more,
  });
  const planned = pushed([null, null], { dry_run: true, deleted: [], kept: ['other'] });
  expect(await json('push', folder, '--dry-run')).toEqual(planned);
  const done = pushed([2, 1], { dry_run: false, deleted: ['other'], kept: [] });
  expect(await json('push', folder, '--prune', '--yes')).toEqual(done);
  expect(await keys()).toEqual(['first', 'second']);
  expect(await json('pull', folder)).toEqual({ written: [], kept: [], unchanged: 2 });
});

test('push shows what would change before it writes', async () => {
  await save('changed', [pause, { command: 'wait', input: { duration: 5 } }]);
  await save('same', [pause]);
  await save('unknown', [pause]);
  await write('a.json', { key: 'changed', steps: [pause, { command: 'wait', input: { duration: 9 } }] });
  await write('b.json', { steps: [pause], key: 'same' });
  await write('c.json', { key: 'new', steps: [pause] });
  await write('ignored.txt', 'not a workflow');

  const plan = `change changed
--- project
+++ folder
@@ -7,7 +7,7 @@
     {
       "command": "wait",
       "input": {
-        "duration": 5
+        "duration": 9
       }
     }
   ]
create new
`;
  const shown = await run('push', folder, '--dry-run');
  expect(shown).toEqual({
    code: 0,
    err: '',
    out: `${plan}keep unknown: it is not in the folder (--prune deletes it)
2 to save, 0 to delete, 1 unchanged
`,
  });
  expect(await run('push', folder)).toEqual({
    code: 2,
    out: shown.out,
    err: 'belfry: standard input is not a terminal: use --yes to write without a question\n',
  });
  expect(await keys()).toEqual(['changed', 'same', 'unknown']);

  expect(await run('push', folder, '--yes', '--prune')).toEqual({
    code: 0,
    err: '',
    out: `${plan}delete unknown
2 to save, 1 to delete, 1 unchanged
saved changed: version 2
saved new: version 1
deleted unknown
`,
  });
  expect(await keys()).toEqual(['changed', 'new', 'same']);
  expect((await saved())[0]?.steps[1]).toEqual({ command: 'wait', input: { duration: 9 } });
});

test('triggers and options of a definition are pulled and pushed', async () => {
  const definition = {
    key: 'with-all',
    triggers: [
      { schedule: '0 9 * * 1', time_zone: 'Europe/Berlin', missed: 'skip', input: { report: 'weekly' } },
      { event: 'notification.seen', if: "event.context.category == 'orders'" },
    ],
    steps: [pause],
  };
  const file = join(folder, 'with-all.json');
  await write('with-all.json', definition);
  expect(await run('push', folder, '--yes')).toMatchObject({ code: 0, err: '' });
  expect((await service.project.call('GET', '/workflows/with-all')).body).toMatchObject(definition);
  await rm(file);
  expect(await run('pull', folder)).toMatchObject({ code: 0, err: '' });
  expect(JSON.parse(await readFile(file, 'utf8'))).toEqual(definition);
  await write('with-all.json', { ...definition, triggers: definition.triggers.slice(1) });
  const { out } = await run('push', folder, '--yes');
  expect(out).toContain('-      "schedule": "0 9 * * 1",\n');
  expect((await service.project.call('GET', '/workflows/with-all')).body.triggers).toHaveLength(1);
});

test.skipIf(!hasTerminals)('push asks on a terminal, and writes only after yes', async () => {
  await write('asked.json', { key: 'asked', steps: [pause] });
  const shownAfter = async (typed: string) => {
    const child = belfryOnTerminal([
      ...['workflow', 'push', folder],
      ...['--url', service.address, '--jwt', service.project.jwt],
    ]);
    const shown = new Output(child, 'stdout');
    await shown.until(/Write these changes to the project\? \[y\/N\] /);
    child.stdin?.write(typed);
    await once(child, 'close');
    return shown.text;
  };
  for (const typed of ['\r', 'no\r', '\u0003', '\u0004']) {
    expect(await shownAfter(typed)).not.toContain('saved');
    expect(await keys()).toEqual([]);
  }
  expect(await shownAfter('y\r')).toContain('saved asked: version 1');
  expect(await keys()).toEqual(['asked']);
});

test('push writes nothing if a file is wrong', async () => {
  await write('good.json', { key: 'good', steps: [pause] });
  await write('twice.json', { key: 'good', steps: [] });
  await write('broken.json', '{');
  await write('shape.json', { key: 'x', step: [] });
  await write('steps.json', {
    key: 'steps',
    steps: [{ command: 'abort', if: 'user.nmae', input: { why: 'x' } }],
  });
  await write('large.json', { key: 'large', steps: [{ command: 'set', input: { a: 'x'.repeat(270_000) } }] });
  const { code, out, err } = await run('push', folder, '--yes');
  expect([code, out]).toEqual([1, '']);
  for (const problem of [
    /broken\.json: is not JSON: /,
    /shape\.json: Param 'key' must have at least 3 characters$/m,
    /shape\.json: Param 'steps' is missing$/m,
    /shape\.json: .*step$/m,
    /steps\.json: Param 'steps\.0\.if' reads user\.nmae, which does not exist/,
    /steps\.json: Param 'steps\.0\.input' doesn't allow key: why$/m,
    /large\.json: has more than 262144 bytes$/m,
    /twice\.json: the key good is that of .*good\.json as well$/m,
  ])
    expect(err).toMatch(problem);
  expect(await keys()).toEqual([]);
  expect(await run('push', join(folder, 'missing'))).toMatchObject({
    code: 1,
    err: expect.stringContaining('cannot be read (ENOENT)'),
  });
});

test('run starts a run, follows it, and runs shows it', async () => {
  await save('flow', [
    { command: 'set', input: { a: '{{ input.a }}' } },
    { command: 'abort', if: 'input.stop' },
  ]);
  const done = await run('run', 'flow', '--input', '{"a": 1}', '--follow');
  expect(done).toMatchObject({ code: 0, err: '' });
  expect(done.out).toMatch(
    /^[\da-f-]{36}\nstep 0 {2}set {2}completed\nstep 1 {2}abort {2}skipped\ncompleted\n$/,
  );
  const stopped = await run('run', 'flow', '--input', '{"stop": true}', '--follow', '--json');
  expect([stopped.code, JSON.parse(stopped.out)]).toMatchObject([1, { status: { state: STATE.aborted } }]);

  const [id = ''] = done.out.split('\n');
  const shown = await run('runs', 'show', id);
  expect(shown.out).toMatch(/^workflow +flow, version 1$/m);
  expect(shown.out).toMatch(/^state +completed$/m);
  expect(shown.out).toMatch(
    /^STEP +COMMAND +STATE +ENDED +ERROR\n0 +set +completed +20\S+Z\n1 +abort +skipped +20\S+Z$/m,
  );
  expect(JSON.parse((await run('runs', 'show', id, '--json')).out)).toMatchObject({ id, input: { a: 1 } });

  const listed = await run('runs', 'flow', '--state', 'aborted');
  expect(listed.out).toMatch(/^ID +STATE +VERSION +CREATED +ERROR\n[\da-f-]{36} +aborted +1 +20\S+Z\n$/);
  expect(JSON.parse((await run('runs', 'list', 'flow', '--limit', '1', '--json')).out)).toHaveLength(1);
  expect((await run('runs', 'flow', '--state', 'failed')).out).toBe('no runs\n');
});

test('run and runs report mistakes', async () => {
  await save('waits', [pause]);
  const waiting = await run('run', 'waits', '--follow', '--timeout', '1s');
  expect(waiting).toMatchObject({ code: 1, err: expect.stringContaining('wait longer with --timeout 10m') });
  await inState(service.project, waiting.out.split('\n')[0] ?? '', STATE.waiting);
  expect(await run('run', 'nothing')).toEqual({
    code: 1,
    out: '',
    err: 'belfry: there is no workflow nothing in the project: belfry workflow push saves one\n',
  });
  expect(await run('runs', 'nothing')).toEqual({
    code: 1,
    out: '',
    err: 'belfry: there is no workflow nothing in the project: belfry workflow push saves one\n',
  });
  for (const input of ['{', '[]', 'null'])
    expect(await run('run', 'waits', '--input', input)).toMatchObject({ code: 2, out: '' });
  expect(await run('runs', 'show', 'x')).toMatchObject({ code: 2, out: '' });
  expect(await run('runs', 'show', service.project.id)).toMatchObject({
    code: 1,
    err: `belfry: there is no run ${service.project.id} in the project: belfry workflow run prints the id\n`,
  });
});

test('file names differ and are usable on every system', () => {
  const keys = [
    'flow',
    'Flow',
    'a:b',
    'a_b',
    'con',
    'nul.x',
    '...',
    '.env',
    'x'.repeat(255),
    `${'x'.repeat(254)}y`,
  ];
  const names = [...fileNames(keys).values()];
  expect(new Set(names.map((name) => name.toLowerCase())).size).toBe(keys.length);
  for (const name of names) {
    expect(name).toMatch(/^(?!(con|nul)[.])[A-Za-z0-9_~-][A-Za-z0-9_.~-]*\.json$/);
    expect(name.length).toBeLessThan(200);
  }
  expect(fileNames(['flow', 'other']).get('flow')).toBe('flow.json');
});
