import type { ChildProcess } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sql } from '../../src/db/client.ts';
import { belfry, type Ended, ended, Output, runCommand } from '../support/cli.ts';
import { startTestService, type TestService, until } from '../support/service.ts';
import { belfryOnTerminal, hasTerminals } from '../support/terminal.ts';

let service: TestService;
let settings: Record<string, string>;
let folder: string;

beforeAll(async () => {
  service = await startTestService();
  const { DATA_DIR, DATABASE_URL = '', DATABASE_DIRECT_URL = DATABASE_URL } = service.context.config;
  settings = { DATA_DIR, DATABASE_URL, DATABASE_DIRECT_URL };
  folder = await mkdtemp(join(tmpdir(), 'belfry-cli-watch-'));
});
afterAll(async () => {
  await service?.stop();
  await rm(folder, { recursive: true, force: true });
});

const run = (args: string[]): Promise<Ended> => runCommand(args, settings);

async function send(...to: string[]): Promise<string> {
  const { out, err } = await run(['send', '--title', 'Hi', ...to.flatMap((one) => ['--to', one]), '--wait']);
  expect(err).toBe('');
  return out.split('\n')[0] ?? '';
}

test('status shows a broadcast in total and by channel', async () => {
  const id = await send('ada', 'bob@example.com');
  const shown = await run(['status', id]);
  expect(shown).toMatchObject({ code: 0, err: '' });
  expect(shown.out).toMatch(/^processed: 2 addressed, 0 failed$/m);
  expect(shown.out).toMatch(/^CHANNEL +SENT +SCHEDULED +RETRYING +FAILED +SKIPPED\nin_app +2 +- +- +- +-$/m);
  const { code, out } = await run(['status', id.toUpperCase(), '--follow', '--json']);
  expect(code).toBe(0);
  expect(JSON.parse(out)).toMatchObject({
    id,
    status: { status: 'processed', summary: { total: 2 } },
    channels: { in_app: { sent: 2 } },
    channels_complete: true,
  });
  expect(await run(['status', 'x'])).toMatchObject({ code: 2, err: expect.stringContaining('not the id') });
  for (const follow of [[], ['--follow']])
    expect(await run(['status', service.project.id, ...follow])).toEqual({
      code: 1,
      out: '',
      err: `belfry: there is no broadcast ${service.project.id} in the project: belfry send prints the id\n`,
    });
});

test('events are listed, the oldest first, and filtered by type', async () => {
  await send('eve');
  const { out } = await run(['events', '--type', 'broadcast.*', '--json', '--limit', '2']);
  const lines = out
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as { type: string; timestamp: string });
  expect(lines).toHaveLength(2);
  for (const { type } of lines) expect(type).toMatch(/^broadcast\./);
  expect(lines.map(({ timestamp }) => timestamp)).toEqual(lines.map(({ timestamp }) => timestamp).toSorted());
  expect((await run(['events'])).out).toMatch(/^20\S+Z {2}broadcast\.\w+ +.*broadcast_id=/m);
  expect(await run(['events', '--type', 'nonsense'])).toMatchObject({ code: 1, out: '' });
  expect(await run(['events', '--after', service.project.id])).toMatchObject({ code: 2, out: '' });
});

test('events are followed, also after a given event', async () => {
  const first = await send('fred');
  const listed = await run(['events', '--json', '--type', 'broadcast.created', '--limit', '1']);
  const last = JSON.parse(listed.out) as { id: string };
  const follow = (...more: string[]) => belfry(['events', '--follow', '--json', ...more], settings);
  const child = follow('--type', 'broadcast.created', '--after', last.id);
  try {
    const output = new Output(child, 'stdout');
    await new Output(child, 'stderr').until(/following/);
    const second = await send('grace');
    await output.until(new RegExp(second));
    expect(output.text).not.toContain(first);
    for (const line of output.text.trimEnd().split('\n'))
      expect(JSON.parse(line)).toMatchObject({ type: 'broadcast.created' });
  } finally {
    child.kill('SIGINT');
  }
  expect(await exitOf(child)).toBe(0);
});

async function exitOf(child: ChildProcess): Promise<number | null> {
  if (child.exitCode === null) await new Promise((resolve) => child.once('exit', resolve));
  return child.exitCode;
}

test('send names every recipient that looks like an address and is not valid', async () => {
  const to = ['foo@', '@bar', '+49abc', '+491701234567', 'ok@example.com', 'plain', 'external_id:+49'];
  const { code, out, err } = await run(['send', '--title', 'x', ...to.flatMap((one) => ['--to', one])]);
  expect({ code, out }).toEqual({ code: 2, out: '' });
  expect(
    err
      .trimEnd()
      .split('\n')
      .map((line) => /--to '([^']+)'/.exec(line)?.[1]),
  ).toEqual(to.slice(0, 4));
  expect(err).toContain('external_id:foo@');
});

test('a backup replaces a file only with --force, and its results are JSON, too', async () => {
  const file = join(folder, 'everything.backup');
  await writeFile(file, 'precious');
  const refused = await run(['backup', file]);
  expect(refused).toMatchObject({ code: 1, out: '', err: expect.stringContaining('--force') });
  expect(await readFile(file, 'utf8')).toBe('precious');
  const { code, out, err } = await run(['backup', file, '--force', '--json']);
  expect({ code, err }).toEqual({ code: 0, err: '' });
  expect(JSON.parse(out)).toMatchObject({ file, rows: expect.any(Number), tables: expect.any(Number) });
  expect((await readFile(file)).subarray(0, 2)).toEqual(Buffer.of(0x1f, 0x8b));
  expect(JSON.parse((await run(['migrate', '--json'])).out)).toMatchObject({ applied: [] });
});

test('a backup replaces only files, even with --force', async () => {
  const link = join(folder, 'link.backup');
  await symlink(join(folder, 'missing'), link);
  for (const place of [link, folder])
    expect(await run(['backup', place, '--force'])).toEqual({
      code: 1,
      out: '',
      err: `belfry: ${place} is not a regular file: choose another name\n`,
    });
});

test('a file that appears during the backup is kept, and reported', async () => {
  const file = join(folder, 'raced.backup');
  const { db } = service.context;
  const backup = await db.transaction(async (tx) => {
    await tx.query(sql('test_lock_users', 'lock table users in access exclusive mode'));
    const running = run(['backup', file]);
    await until(
      () => db.query(waiting),
      (rows) => rows.length > 0,
    );
    await writeFile(file, 'precious');
    return { running };
  });
  expect(await backup.running).toEqual({
    code: 1,
    out: '',
    err: `belfry: ${file} exists: choose another name, or replace it with --force\n`,
  });
  expect(await readFile(file, 'utf8')).toBe('precious');
});
const waiting = sql(
  'test_waiting_for_users',
  `select 1 as one from pg_stat_activity
  where datname = current_database() and wait_event_type = 'Lock' and application_name = 'belfry backup'`,
);

test('a stopped backup leaves no file', async () => {
  const own = join(folder, 'stopped');
  await mkdir(own);
  const { db } = service.context;
  const stopped = await db.transaction(async (tx) => {
    await tx.query(sql('test_lock_users', 'lock table users in access exclusive mode'));
    const child = belfry(['backup', join(own, 'x.backup')], settings);
    const end = ended(child);
    await until(
      () => db.query(waiting),
      (rows) => rows.length > 0,
    );
    expect(await readdir(own)).toEqual([expect.stringMatching(/\.partial$/)]);
    child.kill('SIGINT');
    return { end };
  });
  expect(await stopped.end).toEqual({
    code: 1,
    out: '',
    err: 'belfry: the backup was stopped: no file was written\n',
  });
  expect(await readdir(own)).toEqual([]);
});

test('reseal does not use a key that a running server does not have', async () => {
  const { sealer, db, nodeId } = service.context;
  const [held] = await db.query<{ keys: string[] }>(
    sql('test_keys_of_leases', 'select key_ids as keys from leases where expires_at > clock_timestamp()'),
  );
  expect(held?.keys).toEqual(sealer.keyIds);
  const secrets = () => db.query(sql('test_sealed', 'select sealed_api_secret from projects order by id'));
  const before = await secrets();
  const { SECRET_KEY, DATA_DIR } = service.context.config;
  const [key = Buffer.from((await readFile(join(DATA_DIR, 'secret.key'), 'utf8')).trim(), 'hex')] =
    SECRET_KEY;
  const keys = `${'ab'.repeat(32)},${key.toString('hex')}`;
  const refused = await ended(belfry(['reseal'], { ...settings, SECRET_KEY: keys }));
  expect(refused).toMatchObject({ code: 1, out: '', err: expect.stringContaining(nodeId) });
  expect(await secrets()).toEqual(before);
  expect((await run(['reseal'])).code).toBe(0);
});

describe.skipIf(!hasTerminals)('on a terminal', () => {
  /** Runs a command on a pseudo-terminal. Returns what it prints there, with standard error. */
  async function onTerminal(args: string[], more: Record<string, string> = {}): Promise<string> {
    const child = belfryOnTerminal(args, { ...settings, ...more });
    if (child.stdout === null) throw new Error('its output is not piped');
    return (await text(child.stdout)).replaceAll('\r\n', '\n');
  }
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the test looks for them
  const COLOR = /\u001b\[\d+m/;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the test removes them
  const uncolored = (shown: string) => shown.replace(/\u001b\[\d+m/g, '');

  test('tables are aligned and coloured, but without colours in a pipe or with NO_COLOR', async () => {
    await run(['project', 'create', '日本 and ünïcode']);
    const args = ['project', 'list'];
    const [shown, plain, piped] = await Promise.all([
      onTerminal(args),
      onTerminal(args, { NO_COLOR: '1' }),
      run(args),
    ]);
    expect(shown).toMatch(COLOR);
    expect(plain).not.toMatch(COLOR);
    expect(piped.out).not.toMatch(COLOR);
    expect(uncolored(shown)).toBe(plain);
    expect(plain).toBe(piped.out);
    // The start of the third column, in columns of the terminal: two wide characters take two more.
    const starts = plain
      .trimEnd()
      .split('\n')
      .map((line) => line.search(/pk_|API_KEY/) + (line.includes('日本') ? 2 : 0));
    expect(new Set(starts).size).toBe(1);
  });

  test('a backup shows its progress, and clears it at the end', async () => {
    const file = join(folder, 'shown.backup');
    const shown = await onTerminal(['backup', file]);
    const [progress = '', ...rest] = shown
      .split('\u001b[K')
      .filter((part) => part.trim() !== '')
      .map((part) => part.trim());
    expect(progress).toMatch(/^\w+ \(table \d+ of \d+\), \d+\.\d MB$/);
    expect(rest.at(-1)).toMatch(/contains the whole database/);
    expect(await ended(belfry(['backup', file, '--force'], settings))).toMatchObject({ code: 0, err: '' });
  });
});
