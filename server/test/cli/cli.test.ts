import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readdirSync } from 'node:fs';
import { chmod, copyFile, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { migrations } from '../../src/db/migrations.ts';
import { newestSchema } from '../../src/db/schema.ts';
import { freePort } from '../../src/lib/free-port.ts';
import { decodeJwt } from '../../src/lib/jwt.ts';
import { belfry, type Ended, ended, Output, runCommand } from '../support/cli.ts';
import { newDataDir } from '../support/data-dir.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { BUNDLE, BUNDLE_CACHE } from '../support/program.ts';
import { caller } from '../support/service.ts';
import { withClient } from '../support/with-client.ts';

/** The data directory of the server that all commands of this file use. */
let dataDir: string;
let server: ChildProcess;
let settings: Record<string, string>;
let credentials: Record<
  'project_id' | 'api_key' | 'api_secret' | 'project_jwt' | 'base_url' | 'legacy_base_url',
  string
>;

beforeAll(async () => {
  dataDir = await newDataDir('cli');
  settings = {
    DATA_DIR: dataDir,
    PORT: '0',
    LOG_LEVEL: 'warn',
    RATE_LIMIT_READS: '0',
    RATE_LIMIT_WRITES: '0',
  };
  server = belfry(['start'], { ...settings, EGRESS_ALLOW: '127.0.0.1/32' });
  const output = new Output(server, 'stdout');
  new Output(server, 'stderr');
  await output.until(/ready at/);
  credentials = JSON.parse(await readFile(join(dataDir, 'credentials.json'), 'utf8'));
  settings.PORT = new URL(credentials.legacy_base_url).port;
});

afterAll(async () => {
  const closed = once(server, 'close');
  server.kill('SIGTERM');
  await closed;
  await rm(dataDir, { recursive: true, force: true });
});

/** Runs a command with the settings of the server until it ends. */
function run(
  args: string[],
  more: { input?: string; settings?: Record<string, string> } = {},
): Promise<Ended> {
  const own = { ...settings, ...more.settings };
  return more.input === undefined ? runCommand(args, own) : ended(belfry(args, own), more.input);
}

/** The output of a command with --json. */
async function json<Result = Record<string, unknown>>(args: string[], input?: string): Promise<Result> {
  const { code, out, err } = await run([...args, '--json'], input === undefined ? {} : { input });
  expect({ code, err }).toEqual({ code: 0, err: '' });
  return JSON.parse(out) as Result;
}

/** The status of a request to the running server. */
async function status(path: string, jwt: string): Promise<number> {
  const response = await fetch(`${credentials.base_url}${path}`, {
    headers: { authorization: `Bearer ${jwt}` },
  });
  await response.body?.cancel();
  return response.status;
}

describe('usage', () => {
  test('--help names every command, and --version the release', async () => {
    const [help, version, sub] = await Promise.all([
      run(['--help']),
      run(['--version']),
      run(['token', 'issue', '--help']),
    ]);
    for (const verb of [
      'start',
      'send',
      'listen',
      'project',
      'token',
      'doctor',
      'migrate',
      'backup',
      'restore',
      'openapi',
    ])
      expect(help.out).toMatch(new RegExp(`^  ${verb} `, 'm'));
    expect(version).toEqual({ code: 0, out: expect.stringMatching(/^\d+\.\d+\.\d+\n$/), err: '' });
    expect(sub.code).toBe(0);
    expect(sub.out).toContain('--expires <when>');
  });

  test.each([
    [['nope'], "unknown command 'nope'"],
    [['token', 'issue', '--name', ''], 'It must have 1 to 255 characters'],
    [['token', 'list', '--project', ''], "'--project <name or id>' is blank"],
    [['token', 'issue', '--name', 'a\u0007b'], 'none of them a control character'],
    [['project', 'create', ''], "'name' is blank"],
    [['send', '--title', 'x', '--to', 'ada', '--to', ''], "'--to <user>' is blank"],
    [['status', ''], "'broadcast id' is blank"],
    [['token', 'issue'], "required option '--name <name>' not specified"],
    [
      ['token', 'issue', '--project', 'default', '--name', 'x', '--expires', '3x'],
      'must have a form such as 30d, 12h, 2027-01-31 or never',
    ],
    [['token', 'issue', '--project', 'default', '--name', 'x', '--expires', '2020-01-01'], 'in the future'],
    [['token', 'issue', '--name', 'x', '--expires', '2027-02-31'], 'must have a form such as'],
    [['project', 'keys', 'roll', 'api-secret', '--overlap', '400d'], 'of at most 365d'],
    [['token', 'user', '--project', 'default'], '--external-id <id> or --email <address>'],
    [
      ['token', 'user', '--project', 'default', '--external-id', '', '--email', 'a@example.com'],
      "'--external-id <id>' is blank",
    ],
    [
      ['token', 'user', '--project', 'default', '--external-id', 'a', '--email', 'no-address'],
      "--email 'no-address' is not an e-mail address",
    ],
    [['listen', ' '], 'external id or an e-mail address'],
    [['project', 'limits', 'default', '--reads', 'many'], 'must be a number of requests'],
    [['send', '--title', 'x'], 'at least one --to'],
    [['send', '-', '--title', 'x'], 'not both'],
    [['listen', ''], 'external id or an e-mail address'],
  ])('%j ends with 2 and says why', async (args, why) => {
    const { code, out, err } = await run(args);
    expect({ code, out }).toEqual({ code: 2, out: '' });
    expect(err).toContain(why);
    expect(err).not.toContain('    at ');
  });

  test('a wrong setting is named, with exit code 1', async () => {
    const { code, err } = await run(['project', 'list'], { settings: { LOG_LEVL: 'debug', HOST_: '' } });
    expect({ code, err }).toEqual({
      code: 1,
      err: 'belfry: LOG_LEVL is not a setting; did you mean LOG_LEVEL?\n',
    });
  });

  test('the variables that the guides set for clients are not taken for settings', async () => {
    const settings = { BELFRY_URL: '', BELFRY_API_KEY: '', BELFRY_API_SECRET: '', BELFRY_PROJECT_JWT: '' };
    expect((await run(['project', 'list'], { settings })).code).toBe(0);
    expect(await run(['project', 'list'], { settings: { BELFRY_API_TOKEN: '' } })).toMatchObject({
      code: 1,
      err: 'belfry: BELFRY_API_TOKEN is not a setting; see docs/reference/settings.md\n',
    });
  });
});

describe('projects and tokens', () => {
  test('the keys of a new project work at once, and are shown once', async () => {
    const made = await json<Record<string, string>>(['project', 'create', 'shop']);
    expect(made).toMatchObject({
      name: 'shop',
      base_url: credentials.base_url,
      legacy_base_url: credentials.legacy_base_url,
    });
    expect(made.api_secret).toMatch(/^sk_/);
    expect(await status('/broadcasts', made.project_jwt ?? '')).toBe(200);

    const listed = await json<Record<string, string>[]>(['project', 'list']);
    expect(listed.map(({ name }) => name)).toEqual(['default', 'shop']);
    expect(JSON.stringify(listed)).not.toContain('sk_');

    const again = await run(['project', 'create', 'shop']);
    expect(again).toEqual({
      code: 1,
      out: '',
      err: 'belfry: project shop already exists: choose another name\n',
    });
  });

  test('a running server refuses a revoked token at once', async () => {
    const issue = ['token', 'issue', '--project', 'default', '--name', 'ci', '--expires', '30d'];
    const { project_jwt: jwt = '', jti = '' } = await json<Record<string, string>>(issue);
    const { exp, iat } = (decodeJwt(jwt) ?? {}) as { exp: number; iat: number };
    expect(Math.abs(exp - iat - 30 * 86_400)).toBeLessThanOrEqual(5);
    expect(await status('/broadcasts', jwt)).toBe(200);

    const { code, out } = await run(['token', 'revoke', jti]);
    expect({ code, out }).toEqual({ code: 0, out: `Token ci (${jti}) was revoked.\n` });
    const deadline = performance.now() + 4_000; // without a notification it takes 5 s
    while ((await status('/broadcasts', jwt)) !== 401) expect(performance.now()).toBeLessThan(deadline);

    const listed = await run(['token', 'list', '--project', credentials.project_id]);
    expect(listed.out).toMatch(new RegExp(`^ci +${jti} .*Z +20..-.*Z +20..-.*Z$`, 'm'));
    expect(listed.out).not.toContain('eyJ');
  });

  test('running servers apply new rate limits of a project at once', async () => {
    const { project_jwt: jwt = '' } = await json<Record<string, string>>(['project', 'create', 'busy']);
    const limit = async () =>
      (
        await fetch(`${credentials.base_url}/broadcasts`, { headers: { authorization: `Bearer ${jwt}` } })
      ).headers.get('ratelimit-limit');
    const isSoon = async (expected: string) => {
      const deadline = performance.now() + 4_000; // without a notification it takes 5 s
      while ((await limit()) !== expected) expect(performance.now()).toBeLessThan(deadline);
    };
    const server = await limit();
    expect(await json(['project', 'limits', 'busy', '--reads', '7000'])).toMatchObject({
      own: { reads: 7000 },
    });
    await isSoon('7000');
    expect(await run(['project', 'limits', 'busy', '--writes', '0'])).toEqual({
      code: 0,
      out: expect.stringMatching(/^reads +7000 per minute and credential\nwrites +no limit\n$/),
      err: '',
    });
    expect(await json(['project', 'limits', 'busy', '--reads', 'default'])).toMatchObject({
      own: { writes: 0 },
    });
    await isSoon(server ?? '');
    expect((await run(['project', 'limits', 'nope'])).err).toContain('there is no project nope');
  });

  test('a User JWT opens the inbox of its user', async () => {
    const { out } = await run(['token', 'user', '--project', 'default', '--external-id', 'ada']);
    expect(await status('/notifications/unread/count', out.trim())).toBe(200);
    expect(decodeJwt(out.trim())).toMatchObject({ user_external_id: 'ada', exp: expect.any(Number) });
  });

  test('a wrong key is named, not shown', async () => {
    const args = ['token', 'issue', '--project', 'default', '--name', 'x'];
    const problem = new RegExp(
      '^belfry: a secret was encrypted with the key [0-9a-f]{8}, .*: ' +
        'run the command with the settings of the server\n$',
    );
    const { code, err } = await run(args, { settings: { SECRET_KEY: 'ab'.repeat(32) } });
    expect({ code, err }).toEqual({
      code: 1,
      err: expect.stringMatching(problem),
    });
  });

  test('an unknown project or token is named', async () => {
    const jti = 'aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa';
    const [project, token] = await Promise.all([
      run(['token', 'list', '--project', 'nope']),
      run(['token', 'revoke', jti]),
    ]);
    expect(project).toEqual({
      code: 1,
      out: '',
      err: 'belfry: there is no project nope: see belfry project list\n',
    });
    expect(token.err).toContain(`there is no token ${jti}`);
  });
});

describe('send', () => {
  test('sends a broadcast from flags, waits for it and prints the result', async () => {
    const args = [
      'send',
      '--title',
      'Hello',
      '--content',
      '<b>Hi</b>',
      '--action-url',
      'https://shop.example/1',
    ];
    const more = [
      '--category',
      'orders',
      '--topic',
      'o:1',
      '--data',
      '{"order": 1}',
      '--to',
      'ada',
      '--to',
      'bob@example.com',
    ];
    const sent = await json([...args, ...more, '--wait']);
    expect(sent).toMatchObject({
      title: 'Hello',
      content: '<b>Hi</b>',
      action_url: 'https://shop.example/1',
      category: 'orders',
      topic: 'o:1',
      custom_attributes: { order: 1 },
      recipients: [{ external_id: 'ada' }, { email: 'bob@example.com' }],
      status: { status: 'processed', summary: { total: 2, failures: 0, pending: 0 } },
    });

    const shown = await run(['send', '--title', 'Hello', '--to', 'external_id:a@b', '--wait']);
    expect(shown).toEqual({
      code: 0,
      out: expect.stringMatching(/^[0-9a-f-]{36}\nprocessed: 1 addressed, 0 failed\n$/),
      err: '',
    });
  });

  test('sends JSON from standard input or a file unchanged', async () => {
    const body = JSON.stringify({
      title: 'Grüße 🦉',
      recipients: [{ external_id: 'ada', first_name: 'Ada' }],
    });
    const file = join(dataDir, 'broadcast.json');
    await writeFile(file, body);
    for (const sent of await Promise.all([json(['send', '-'], body), json(['send', '--file', file])]))
      expect(sent).toMatchObject({
        title: 'Grüße 🦉',
        recipients: [{ external_id: 'ada', first_name: 'Ada' }],
      });
  });

  test('prints all errors of the API and ends with 1', async () => {
    const { code, out, err } = await run(['send', '-'], { input: '{"recipients": [], "titel": "x"}' });
    expect({ code, out }).toEqual({ code: 1, out: '' });
    const lines = err.trimEnd().split('\n');
    expect(lines).toHaveLength(3);
    for (const line of lines) expect(line).toMatch(/^belfry: Param '(title|recipients|\(root\))' .*\(422\)$/);
  });

  test('ends with 1 if a recipient is rejected', async () => {
    const asProject = (method: string, path: string, body?: object) =>
      fetch(`${credentials.base_url}${path}`, {
        method,
        headers: {
          authorization: `Bearer ${credentials.project_jwt}`,
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
    const saved = await asProject('PUT', '/users', { external_id: 'leaver' });
    const { id } = (await saved.json()) as { id: string };
    expect((await asProject('DELETE', `/users/${id}`)).status).toBe(204);
    const { code, out } = await run(['send', '--title', 'x', '--to', 'leaver', '--to', 'ada', '--wait']);
    expect(code).toBe(1);
    expect(out).toMatch(/processed: 2 addressed, 1 failed\n {2}recipients\.0: /);
  });

  test('says that standard input is empty', async () => {
    expect(await run(['send', '-'], { input: '' })).toEqual({
      code: 1,
      out: '',
      err: 'belfry: standard input is empty: it must have the broadcast as JSON\n',
    });
  });

  test('explains how to start a server if none is running', async () => {
    const closedPort = await freePort();
    const args = ['send', '--title', 'x', '--to', 'ada'];
    const refused = await run([...args, '--url', `http://127.0.0.1:${closedPort}`]);
    expect(refused).toEqual({
      code: 1,
      out: '',
      err:
        `belfry: no server is running at http://127.0.0.1:${closedPort}: ` +
        'start it with npm start, or use another with --url\n',
    });
    const unknown = await run(args, { settings: { DATA_DIR: join(dataDir, 'nothing') } });
    expect(unknown.code).toBe(1);
    expect(unknown.err).toContain('start or restart the server');
  });

  test('says why credentials.json cannot be used', async () => {
    const own = join(dataDir, 'own-credentials');
    const file = join(own, 'credentials.json');
    const send = async () => {
      const sent = await run(['send', '--title', 'x', '--to', 'ada'], { settings: { DATA_DIR: own } });
      expect(sent).toMatchObject({ code: 1, out: '' });
      return sent.err;
    };
    await mkdir(file, { recursive: true }); // a file that cannot be read, also by root
    expect(await send()).toMatch(/^belfry: .*credentials\.json cannot be read \(EISDIR\): .*\n$/);
    await rm(file, { recursive: true });
    for (const content of ['', '{"base_url":', 'null', '{}']) {
      await writeFile(file, content);
      expect(await send()).toMatch(/^belfry: .*credentials\.json is damaged: restart the server.*\n$/);
    }
  });

  test.each([200, 404])('recognises another program, which responds with %i', async (status) => {
    const other = createHttpServer((_, response) => response.writeHead(status).end('<html>'));
    await once(other.listen(0, '127.0.0.1'), 'listening');
    const url = `http://127.0.0.1:${(other.address() as AddressInfo).port}`;
    const id = '01977777-7777-7777-8777-777777777777';
    try {
      for (const args of [
        ['send', '--title', 'x', '--to', 'ada'],
        ['status', id],
        ['events'],
        ['events', '--follow'],
        ['listen', 'ada'],
        ['workflow', 'run', 'onboarding'],
        ['workflow', 'runs', 'onboarding'],
        ['workflow', 'runs', 'show', id],
      ])
        expect({ args, ...(await run([...args, '--url', url])) }).toMatchObject({
          code: 1,
          out: '',
          err: expect.stringMatching(
            new RegExp(`^belfry: ${url}/v2/\\S+ responded with ${status}, and not as Belfry does: .*\n$`),
          ),
        });
    } finally {
      other.close();
      other.closeAllConnections();
    }
  });
});

describe('users import', () => {
  const write = async (name: string, text: string | Buffer) => {
    const file = join(dataDir, name);
    await writeFile(file, text);
    return file;
  };

  test('divides a CSV file, and reports the users that failed', async () => {
    const lines = Array.from({ length: 10_050 }, (_, index) => `c${index},c${index}@cli.example,"A\n""B"""`);
    lines[10_001] = 'bad,x,';
    const file = await write('users.csv', `\ufeffexternal_id,email,first_name\r\n${lines.join('\r\n')}\r\n`);
    const { code, out } = await run(['users', 'import', file, '--json']);
    expect(code).toBe(1);
    expect(JSON.parse(out)).toEqual({
      ...{ total: 10_050, created: 10_049, updated: 0, failed: 1 },
      failures: [
        {
          row: 10_002,
          user: { external_id: 'bad', email: 'x' },
          errors: [{ message: "Param 'email' must be an e-mail address" }],
        },
      ],
    });
  });

  test.each([
    ['users.json', '{"users":[{"external_id":"j1"},{"external_id":"j2"}]}'],
    ['list.json', '[{"external_id":"l1"},{"external_id":"l2"}]'],
    ['users.ndjson', '{"external_id":"n1"}\n\n{"external_id":"n2"}\n'],
    ['semicolons.csv', 'external_id;custom_attributes.a,b\r\ns1;x\r\n\r\ns2;\r\n'],
  ])('reads %s', async (name, text) => {
    const { code, out } = await run(['users', 'import', await write(name, text)]);
    expect([code, out]).toEqual([0, '2 users: 2 created, 0 updated, 0 failed\n']);
  });

  test('keeps empty cells at the ends of a line, and values with spaces', async () => {
    const file = await write(
      'tabs.tsv.csv',
      'external_id\temail\tlast_name\n\ttabs@cli.example\t\n t2\t\tB \n',
    );
    expect(await run(['users', 'import', file])).toMatchObject({
      code: 0,
      out: '2 users: 2 created, 0 updated, 0 failed\n',
    });
    const call = caller(() => credentials.legacy_base_url, credentials.project_jwt);
    const { body } = await call('GET', '/users/email:tabs@cli.example');
    expect(body).toMatchObject({ external_id: null, last_name: null });
    expect((await call('GET', '/users/external_id:%20t2')).body).toMatchObject({ last_name: 'B ' });
  });

  test.each([
    ['latin1.csv', Buffer.from('external_id,first_name\nl,Jos\xe9\n', 'latin1'), 'is not UTF-8'],
    ['utf16.csv', Buffer.from('\ufeffexternal_id\nu\n', 'utf16le'), 'is not UTF-8'],
    ['empty.csv', 'external_id\n', 'has no users'],
    ['open.csv', 'external_id\n"x\n', 'is not valid CSV'],
    ['broken.json', '{"users":[', 'is not valid JSON'],
    ['object.json', '{}', 'must be a list of users'],
    ['column.csv', 'external_id,nick\nx,y\n', 'unknown column "nick"'],
    ['users.txt', 'x', 'must end in .csv'],
  ])('rejects %s', async (name, text, message) => {
    const { code, err } = await run(['users', 'import', await write(name, text)]);
    expect([code === 0, err]).toEqual([false, expect.stringContaining(message)]);
  });
});

describe('listen', () => {
  test('prints notifications and their changes, and ends cleanly on Ctrl-C', async () => {
    const child = belfry(['listen', 'grace'], settings);
    const out = new Output(child, 'stdout');
    const err = new Output(child, 'stderr');
    await err.until(/grace has 0 unread notifications\nlistening…/);

    const content = '<p>It arrives <b>tomorrow</b>.</p><p>Bye\u001b[2J</p>';
    const args = [
      'send',
      '--title',
      'On its \u001b[31mway',
      '--content',
      content,
      '--action-url',
      '/orders/7',
      '--to',
      'grace',
    ];
    await json(args);
    await out.until(/\/orders\/7\n/);
    expect(out.text.replace(/^\d\d:\d\d:\d\d/, 'hh:mm:ss').replace(/\n\n/g, '\n')).toBe(
      'hh:mm:ss  On its [31mway\n          It arrives tomorrow.\n          Bye[2J\n          /orders/7\n',
    );

    const jwt = (await run(['token', 'user', '--project', 'default', '--external-id', 'grace'])).out.trim();
    const headers = { authorization: `Bearer ${jwt}` };
    await fetch(`${credentials.base_url}/notifications/read`, { method: 'POST', headers });
    await out.until(/all read\n/);

    const closed = once(child, 'close');
    child.kill('SIGINT');
    expect(await closed).toEqual([0, null]);
    expect(err.text).toBe('grace has 0 unread notifications\nlistening… (Ctrl-C ends)\n');
  });

  test('reconnects and prints what it missed, once', async () => {
    const wire = await openWire(Number(settings.PORT));
    const child = belfry(['listen', 'linus@example.com', '--json', '--url', wire.url], settings);
    const out = new Output(child, 'stdout');
    const err = new Output(child, 'stderr');
    try {
      await err.until(/listening/);
      const send = (title: string) => json(['send', '--title', title, '--to', 'linus@example.com', '--wait']);
      await send('before');
      await out.until(/"title":"before"/);
      await wire.cut();
      await send('meanwhile');
      await wire.repair();
      await out.until(/"title":"meanwhile"/);
      expect(err.text).toMatch(/the connection was lost; reconnecting…\nreconnected\n/);
      await send('after');
      await out.until(/"title":"after"/);
      const frames = out.text
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line));
      expect(frames.map(({ name, data }) => [name, data.notification.title])).toEqual([
        ['notifications/new', 'before'],
        ['notifications/new', 'meanwhile'],
        ['notifications/new', 'after'],
      ]);
    } finally {
      const closed = once(child, 'close');
      child.kill('SIGTERM');
      expect(await closed).toEqual([0, null]);
      await wire.close();
    }
  });

  test('reports a missing permission', async () => {
    const refused = await run([
      'listen',
      'ada',
      '--url',
      credentials.legacy_base_url,
      '--jwt',
      credentials.project_jwt,
    ]);
    expect(refused).toMatchObject({ code: 1, out: '', err: expect.stringMatching(/^belfry: .*\(403\)\n$/) });
  });
});

describe('doctor', () => {
  interface Report {
    ok: boolean;
    checks: { check: string; status: string; message: string; advice?: string }[];
  }

  async function doctor(more: Record<string, string> = {}): Promise<Report & { code: number | null }> {
    const { code, out, err } = await run(['doctor', '--json'], { settings: more });
    expect(err).toBe('');
    return { code, ...(JSON.parse(out) as Report) };
  }

  const findings = ({ checks }: Report, status: string) =>
    checks.filter((check) => check.status === status).map(({ check, message }) => `${check}: ${message}`);

  test('finds no problem with a running server', async () => {
    const report = await doctor();
    expect({ code: report.code, ok: report.ok, problems: findings(report, 'problem') }).toEqual({
      code: 0,
      ok: true,
      problems: [],
    });
    const fine = findings(report, 'ok').join('\n');
    expect(fine).toContain(`port: ${credentials.legacy_base_url} is used by Belfry`);
    expect(fine).toContain('server: it runs and is ready');
    expect(fine).toMatch(
      new RegExp(`database: embedded, run by the Belfry with pid ${server.pid}: PostgreSQL 18`),
    );
    expect(fine).toMatch(/secrets: all \d+ can be decrypted/);

    const { code, out } = await run(['doctor']);
    expect(code).toBe(0);
    expect(out).toMatch(/^✓ node +24/);
    expect(out).toMatch(/\n0 problems, \d+ warnings?\n$/);
  });

  test('warns of a project whose users of v1 need no HMAC', async () => {
    await json(['project', 'create', 'open']);
    expect(await json(['project', 'hmac', 'optional', '--project', 'open'])).toEqual({
      hmac_required: false,
    });
    const warned = findings(await doctor(), 'warning').filter((warning) => warning.startsWith('hmac: '));
    expect(warned).toEqual([expect.stringContaining('users of the v1 API need no HMAC in open: everyone')]);
    const { out } = await run(['project', 'hmac', 'required', '--project', 'open']);
    expect(out).toBe('Users of the v1 API of open must prove who they are by an HMAC.\n');
    expect(findings(await doctor(), 'warning').join()).not.toContain('hmac');
  });

  test('creates nothing in an empty directory', async () => {
    const fresh = join(dataDir, 'fresh');
    const report = await doctor({ DATA_DIR: fresh, PORT: '0' });
    expect(report.ok).toBe(true);
    expect(findings(report, 'ok')).toContain(
      'database: embedded (PostgreSQL 18): the first start creates it',
    );
    expect(existsSync(fresh)).toBe(false);
  });

  test('looks at the disk only for the embedded database', async () => {
    const checks = async (more: Record<string, string> = {}) =>
      (await doctor(more)).checks.map(({ check }) => check);
    expect(await checks()).toContain('disk');
    const elsewhere = await checks({ DATABASE_URL: 'postgres://belfry@127.0.0.1:1/belfry' });
    expect(elsewhere).toContain('data directory');
    expect(elsewhere).not.toContain('disk');
  });

  test('names every wrong setting', async () => {
    const report = await doctor({ PORT: 'x', EGRESS_ALLOW: 'everything', RATE_LIMIT_WRITE: '1' });
    expect(report.code).toBe(1);
    expect(findings(report, 'problem')).toEqual([
      expect.stringContaining('RATE_LIMIT_WRITE is not a setting'),
      expect.stringContaining("PORT 'x'"),
      expect.stringContaining("EGRESS_ALLOW 'everything'"),
    ]);
  });

  test('finds NATS servers that do not respond, without showing the password', async () => {
    const report = await doctor({ NATS_URL: 'nats://belfry:hidden-password@127.0.0.1:1' });
    expect(findings(report, 'problem')).toEqual(['nats: 127.0.0.1:1: ECONNREFUSED']);
    expect(JSON.stringify(report)).not.toContain('hidden-password');
  });

  test('finds open permissions, ports in use, and wrong keys', async () => {
    const other = createServer((socket) => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi'));
    await once(other.listen(0, '127.0.0.1'), 'listening');
    const key = join(dataDir, 'secret.key');
    await chmod(key, 0o644);
    try {
      const { port } = other.address() as AddressInfo;
      const report = await doctor({ PORT: String(port), SECRET_KEY: 'ab'.repeat(32) });
      expect(report.code).toBe(1);
      expect(findings(report, 'problem')).toEqual([
        `data directory: ${key} has mode 0644: other users can read it`,
        `port: ${port} of 127.0.0.1 is used by another program`,
        expect.stringMatching(
          /^secrets: \d+ of \d+ cannot be decrypted; project default: a secret was encrypted with the key/,
        ),
      ]);
    } finally {
      await chmod(key, 0o600);
      other.close();
    }
  });

  test('connects to the mail server of an integration as the server does', async () => {
    const mail = createServer((socket) => socket.on('error', () => {}));
    await once(mail.listen(0, '127.0.0.1'), 'listening');
    const { port } = mail.address() as AddressInfo;
    const integration = {
      host: '127.0.0.1',
      port,
      username: '',
      password: '',
      from: { email: 'shop@example.com' },
    };
    const headers = {
      authorization: `Bearer ${credentials.project_jwt}`,
      'content-type': 'application/json',
    };
    const address = `${credentials.base_url}/integrations/smtp`;
    const saved = await fetch(address, { method: 'PUT', headers, body: JSON.stringify(integration) });
    expect(saved.status).toBe(200);
    try {
      const [closed, open] = await Promise.all([doctor(), doctor({ EGRESS_ALLOW: '127.0.0.1/32' })]);
      expect(findings(closed, 'problem')).toEqual([
        `egress: 127.0.0.1:${port} (smtp of project default) may not be reached`,
      ]);
      expect(closed.checks.find(({ check }) => check === 'egress')?.advice).toContain(
        'EGRESS_ALLOW=127.0.0.1/32',
      );
      expect(findings(open, 'ok')).toContain(
        `egress: 127.0.0.1:${port} (smtp of project default) can be reached`,
      );
      expect(findings(open, 'warning').join()).toContain('public address: not set');
      mail.close();
      const gone = await doctor({ EGRESS_ALLOW: '127.0.0.1/32' });
      expect(findings(gone, 'problem')).toEqual([
        `egress: 127.0.0.1:${port} (smtp of project default) cannot be reached (ECONNREFUSED)`,
      ]);
    } finally {
      await fetch(address, { method: 'DELETE', headers: { authorization: headers.authorization } });
    }
  });
});

describe('the database', () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase();
  });
  afterAll(() => database.drop());

  test('doctor checks the one of DATABASE_URL, and the permissions of its user', async () => {
    const client = new pg.Client(database.connection);
    await client.connect();
    const role = `guest_${randomUUID().replaceAll('-', '')}`;
    await client.query(`create role ${role} login`);
    try {
      const guest = database.url.replace(/\/\/[^@:]+/, `//${role}`);
      const where = (url: string) => ({
        settings: { DATABASE_URL: url, DATA_DIR: join(dataDir, 'none'), PORT: '0' },
      });
      const [owner, stranger, unreachable] = await Promise.all([
        run(['doctor'], where(database.url)),
        run(['doctor'], where(guest)),
        run(['doctor'], where(`postgres://x@127.0.0.1:${await freePort()}/x`)),
      ]);
      expect(owner.out).toMatch(/^✓ database +that of DATABASE_URL: PostgreSQL \d\d/m);
      const newest = newestSchema();
      expect(owner.out).toMatch(
        new RegExp(
          `^✓ database +schema ${newest}, that of this release; servers that know \\d+ or newer may run$`,
          'm',
        ),
      );
      expect(owner.out).toMatch(/^✓ clock /m);
      expect(owner.code).toBe(0);
      expect(stranger.code).toBe(1);
      expect(stranger.out).toMatch(
        new RegExp(`^✗ database +user ${role} may not read Belfry's tables$`, 'm'),
      );
      expect(unreachable.code).toBe(1);
      expect(unreachable.out).toMatch(
        /^✗ database +that of DATABASE_URL: cannot be reached \(.*ECONNREFUSED/m,
      );
    } finally {
      await client.query(`drop role ${role}`);
      await client.end();
    }
  });

  test('a command whose user lacks a right does not say that the database is unreachable', async () => {
    const target = await createTestDatabase();
    const role = `limited_${randomUUID().replaceAll('-', '')}`;
    const admin = (text: string) => withClient(target.connection, (client) => client.query(text));
    await admin(`create role ${role} login`);
    try {
      await admin(`grant all on all tables in schema public to ${role}`);
      await admin(`revoke insert on project_tokens from ${role}`);
      const url = target.url.replace(/\/\/[^@:]+/, `//${role}`);
      const where = { settings: { DATABASE_URL: url, DATA_DIR: join(dataDir, 'limited'), PORT: '0' } };
      expect((await run(['doctor'], where)).out).toMatch(
        new RegExp(`^! database +user ${role} does not own Belfry's tables, so it adds no months`, 'm'),
      );
      expect(await run(['project', 'create', 'shop'], where)).toEqual({
        code: 1,
        out: '',
        err:
          'belfry: the database cannot be used (permission denied for table project_tokens): ' +
          'grant its user this right; if the user has it, check whether the disk is read-only\n',
      });
    } finally {
      await target.drop();
      await withClient(database.connection, (client) => client.query(`drop role ${role}`));
    }
  });

  test('servers are notified of a revoked token before the command ends', async () => {
    const where = { settings: { DATABASE_URL: database.url, DATA_DIR: join(dataDir, 'other') } };
    const made = JSON.parse((await run(['project', 'create', 'shop', '--json'], where)).out);
    const client = new pg.Client(database.connection);
    await client.connect();
    const heard: string[] = [];
    client.on('notification', ({ payload }) => heard.push(payload ?? ''));
    try {
      await client.query('listen belfry_realtime');
      const jti = String(decodeJwt(made.project_jwt)?.jti);
      expect(await run(['token', 'revoke', jti], where)).toMatchObject({ code: 0, err: '' });
      await client.query('select'); // notifications that were sent before arrive with its result
      expect(heard.join()).toContain(`{"type":"project_changed","projectId":"${made.project_id}"}`);
    } finally {
      await client.end();
    }
  });

  test('migrate reports that there is nothing to do', async () => {
    const { code, out } = await run(['migrate']);
    expect({ code, out }).toEqual({
      code: 0,
      out: expect.stringMatching(/^The database already has schema \d+/),
    });
  });

  test('migrate --dry-run shows what would run, and whether running servers allow it', async () => {
    const settings = { DATABASE_URL: database.url, DATA_DIR: join(dataDir, 'other') };
    const plan = async () => {
      const { code, out, err } = await run(['migrate', '--dry-run', '--json'], { settings });
      return { code, err, ...JSON.parse(out) };
    };
    const newest = newestSchema();
    const missing = migrations().at(-1);
    const oldest = Math.max(...migrations().map(({ oldestProgram }) => oldestProgram));
    const current = { schema: newest, newest, oldest_program: oldest, migrations: [], problems: [] };
    const client = new pg.Client({ ...database.connection, application_name: 'belfry api (schema 1)' });
    await client.connect();
    try {
      expect(await plan()).toEqual({
        ...{ code: 0, err: '', ...current, running: [1] },
      });
      await client.query('delete from migrations where version = $1', [newest]);
      const outdated = await plan();
      expect(outdated).toEqual({
        ...{ code: 1, err: '', ...current, running: [1], schema: newest - 1 },
        migrations: [{ version: newest, name: missing?.name }],
        problems: [expect.stringContaining('some that run know 1: update these to a release in between')],
      });
      const text = await run(['migrate', '--dry-run'], { settings });
      expect(text.code).toBe(1);
      expect(text.out).toContain(`\n  ${newest} ${missing?.name}\n`);
      expect(text.err).toBe(`belfry: ${outdated.problems[0]}\n`);
      await client.query("insert into migrations (version, name) values ($1, 'again'), (9999, 'newer')", [
        newest,
      ]);
      expect(await plan()).toMatchObject({
        code: 1,
        schema: 9999,
        oldest_program: 9999,
        problems: [expect.stringContaining('start the newer release, or restore a backup')],
      });
      await client.query('update migrations set oldest_program = $1 where version = 9999', [newest]);
      expect(await plan()).toMatchObject({ code: 0, schema: 9999, oldest_program: newest, problems: [] });
      expect(await run(['migrate'], { settings })).toMatchObject({
        code: 0,
        out: 'The database already has schema 9999, made by a newer release.\n',
      });
      const doctor = await run(['doctor'], { settings: { ...settings, PORT: '0' } });
      expect(doctor.out).toMatch(
        new RegExp(
          `✓ database +schema 9999, newer than that of this release \\(${newest}\\); ` +
            `servers that know ${newest} or newer may run`,
        ),
      );
    } finally {
      await client.query('delete from migrations where version = 9999');
      await client.end();
    }
  });

  test('a backup of the running server is restored with all its keys', async () => {
    const file = join(dataDir, 'all.backup');
    const backup = await run(['backup', file]);
    expect(backup).toMatchObject({ code: 0, err: '' });
    expect(backup.out).toContain(`Keep a copy of ${join(dataDir, 'secret.key')}`);

    const into = { DATA_DIR: join(dataDir, 'restored') };
    const restored = await run(['restore', file], { settings: into });
    expect(restored).toMatchObject({ code: 1, out: expect.stringMatching(/^Restored \d+ rows of schema/) });
    expect(restored.err).toMatch(
      new RegExp(
        `^belfry: everything is restored, but ${join(into.DATA_DIR, 'secret.key')} is missing, and the ` +
          'secrets in the database were encrypted with the key [0-9a-f]{8}: before you start Belfry, copy ' +
          'the secret.key of the backed-up server there, or set SECRET_KEY\n$',
      ),
    );
    await copyFile(join(dataDir, 'secret.key'), join(into.DATA_DIR, 'secret.key'));
    const token = ['token', 'user', '--project', 'default', '--external-id', 'ada'];
    const { out } = await run(token, { settings: into });
    expect(await status('/notifications/unread/count', out.trim())).toBe(200);

    const again = await run(['restore', file]);
    expect(again).toMatchObject({
      code: 1,
      out: '',
      err: expect.stringContaining('the database is not empty'),
    });
  });

  test('a backup warns if this machine does not have the key of its secrets', async () => {
    // The data directory of the other commands on this database, with its key.
    const settings = { DATABASE_URL: database.url, DATA_DIR: join(dataDir, 'other') };
    expect(await run(['project', 'create', 'sealed'], { settings })).toMatchObject({ code: 0 });
    const backup = async (name: string, more: Record<string, string>) => {
      const args = ['backup', join(dataDir, name)];
      return run(args, { settings: { ...settings, ...more } });
    };
    const fitting = await backup('fitting.backup', {});
    expect(fitting).toMatchObject({ code: 0, err: '' });
    for (const more of [{ DATA_DIR: join(dataDir, 'no-keys') }, { SECRET_KEY: 'ab'.repeat(32) }]) {
      const unfit = await backup(`unfit-${Object.keys(more)}.backup`, more);
      expect(unfit.code).toBe(0);
      expect(unfit.out).not.toContain('Keep a copy');
      expect(unfit.err).toMatch(
        /^belfry: the backup is complete, but .* with the key [0-9a-f]{8}, which .*\n$/,
      );
    }
  });

  test('a restore says which secrets cannot be decrypted here, and what to do', async () => {
    const file = join(dataDir, 'keys.backup');
    expect(await run(['backup', file])).toMatchObject({ code: 0 });
    const restore = async (more: Record<string, string>) => {
      const target = await createTestDatabase();
      try {
        const url = { DATABASE_URL: target.url };
        const restored = await run(['restore', file, '--json'], { settings: { ...url, ...more } });
        // What was restored is there, whatever the keys are.
        expect(JSON.parse(restored.out).rows).toBeGreaterThan(0);
        const doctor = await run(['doctor', '--json'], { settings: { ...url, ...more, PORT: '0' } });
        return { ...restored, doctor: doctor.code };
      } finally {
        await target.drop();
      }
    };
    expect(await restore({})).toMatchObject({ code: 0, err: '', doctor: 0 });
    const other = 'ab'.repeat(32);
    const wrong = await restore({ SECRET_KEY: other });
    expect(wrong).toMatchObject({ code: 1, doctor: 1 });
    expect(wrong.err).toMatch(
      /^belfry: everything is restored, but SECRET_KEY does not decrypt .*encrypted with the key [0-9a-f]{8}/,
    );
    expect(wrong.err).toMatch(/before you start Belfry, .* the secret\.key of the backed-up server.*\n$/);
    const key = (await readFile(join(dataDir, 'secret.key'), 'utf8')).trim();
    expect(await restore({ SECRET_KEY: `${other},${key}` })).toMatchObject({ code: 0, err: '' });
    const damaged = join(dataDir, 'damaged-key');
    await mkdir(damaged);
    await writeFile(join(damaged, 'secret.key'), 'not a key\n');
    const unusable = await restore({ DATA_DIR: damaged });
    expect(unusable).toMatchObject({ code: 1, doctor: 1 });
    expect(unusable.err).toMatch(
      /^belfry: everything is restored, but .*secret\.key does not hold a key \(.*\), and the secrets .*\n$/,
    );
  });

  test('doctor says that it cannot check secrets while the embedded database is stopped', async () => {
    const stopped = { DATA_DIR: await newDataDir('stopped'), PORT: '0' };
    const check = async () => {
      const { code, out } = await run(['doctor', '--json'], { settings: stopped });
      const { checks } = JSON.parse(out) as { checks: { check: string; status: string; message: string }[] };
      return { code, secrets: checks.filter((one) => one.check === 'secrets') };
    };
    try {
      await rm(join(stopped.DATA_DIR, 'secret.key'), { force: true });
      expect(await check()).toMatchObject({
        code: 0,
        secrets: [{ status: 'warning', message: expect.stringContaining('secret.key is missing') }],
      });
      await copyFile(join(dataDir, 'secret.key'), join(stopped.DATA_DIR, 'secret.key'));
      expect(await check()).toMatchObject({
        code: 0,
        secrets: [{ status: 'ok', message: 'not checked, because the database does not run' }],
      });
    } finally {
      await rm(stopped.DATA_DIR, { recursive: true, force: true });
    }
  });

  test('a backup that cannot be written or read is reported in one line', async () => {
    const missing = join(dataDir, 'no', 'such', 'file');
    for (const verb of ['backup', 'restore']) {
      const { code, err } = await run([verb, missing]);
      expect({ code, err }).toEqual({
        code: 1,
        err: expect.stringMatching(/^belfry: .*cannot be used \(ENOENT\).*\n$/),
      });
    }
  });
});

test('openapi prints the description that the server publishes', async () => {
  const { code, out } = await run(['openapi']);
  expect(code).toBe(0);
  const published = await fetch(`${credentials.base_url}/openapi.json`);
  expect(JSON.parse(out)).toEqual(await published.json());
});

describe('examples', () => {
  const folder = fileURLToPath(new URL('../../../examples/', import.meta.url));
  const scripts = readdirSync(folder).filter((name) => name.endsWith('.sh'));

  test.each(scripts)('%s works unchanged', async (name) => {
    const child = spawn('sh', [join(folder, name)], {
      cwd: folder,
      env: {
        PATH: process.env.PATH,
        HOME: process.env.HOME,
        NODE_COMPILE_CACHE: BUNDLE_CACHE,
        ...settings,
        BELFRY: `${process.execPath} ${BUNDLE}`,
      },
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    const { code, out, err } = await ended(child);
    expect({ code, err }).toEqual({ code: 0, err: '' });
    const expected = await readFile(join(folder, name), 'utf8');
    for (const [, line = ''] of expected.matchAll(/^# prints: (.*)$/gm)) expect(out).toContain(line);
  });
});

/** A proxy to the server. `cut` breaks its connections and refuses new ones until `repair`. */
async function openWire(port: number) {
  const sockets = new Set<Socket>();
  const pass = (near: Socket): void => {
    const far = connect(port, '127.0.0.1');
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on('error', () => {}).on('close', () => sockets.delete(socket));
    }
    near.pipe(far).pipe(near);
  };
  const listen = async (at: number): Promise<Server> => {
    const listening = createServer(pass);
    await once(listening.listen(at, '127.0.0.1'), 'listening');
    return listening;
  };
  let wire = await listen(0);
  const own = (wire.address() as AddressInfo).port;
  const close = async (): Promise<void> => {
    const closed = once(wire, 'close');
    wire.close();
    for (const socket of sockets) socket.destroy();
    await closed;
  };
  return {
    url: `http://127.0.0.1:${own}`,
    cut: close,
    async repair() {
      wire = await listen(own);
    },
    close,
  };
}
