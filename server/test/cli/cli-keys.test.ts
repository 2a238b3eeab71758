import { createSecretKey } from 'node:crypto';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { decodeJwt, verifyJwt } from '../../src/lib/jwt.ts';
import { belfry, type Ended, ended, runCommand } from '../support/cli.ts';
import { newDataDir } from '../support/data-dir.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';

const [OLD, NEW] = ['11'.repeat(32), '22'.repeat(32)];

let database: TestDatabase;
let dataDir: string;

beforeAll(async () => {
  database = await createTestDatabase();
  dataDir = await newDataDir('cli-keys');
});
afterAll(async () => {
  await database?.drop();
  await rm(dataDir, { recursive: true, force: true });
});

const settingsWith = (secretKey: string) => ({
  DATABASE_URL: database.url,
  DATA_DIR: dataDir,
  SECRET_KEY: secretKey,
  LOG_LEVEL: 'warn',
});

const run = (args: string[], secretKey = OLD): Promise<Ended> => runCommand(args, settingsWith(secretKey));

async function json<Result = Record<string, string>>(args: string[], secretKey?: string): Promise<Result> {
  const { code, out, err } = await run([...args, '--json'], secretKey);
  expect({ code, err }).toEqual({ code: 0, err: '' });
  return JSON.parse(out) as Result;
}

const file = () => join(dataDir, 'credentials.json');

test('keys are rolled, listed and removed, and SECRET_KEY is replaced', async () => {
  // If there is only one project, it need not be named.
  expect((await run(['project', 'keys', 'list'])).err).toContain('there is no project yet');
  const shop = await json(['project', 'create', 'shop']);
  await writeFile(file(), JSON.stringify({ ...shop, other: 'kept' }));

  const rolled = await json(['project', 'keys', 'roll', 'api-secret', '--overlap', '2h']);
  expect(rolled.api_secret).toMatch(/^sk_/);
  expect(rolled.api_secret).not.toBe(shop.api_secret);
  const leftMs = Date.parse(rolled.former_key_valid_until ?? '') - Date.now();
  expect(Math.round(leftMs / 3_600_000)).toBe(2);

  const ended = await json(['project', 'keys', 'roll', 'signing-key', '--overlap', '0']);
  expect(ended).toMatchObject({ project_jwts_ending: 1, credentials_file_renewed: true });
  const renewed = JSON.parse(await readFile(file(), 'utf8'));
  expect(renewed).toMatchObject({ api_secret: rolled.api_secret, other: 'kept' });
  expect(renewed.project_jwt).not.toBe(shop.project_jwt);

  const keys = await json<Record<string, string>[]>(['project', 'keys', 'list']);
  expect(keys.map(({ kind, state }) => `${kind} ${state}`)).toEqual([
    'api_secret current',
    'api_secret valid',
    'signing_key current',
    'signing_key ended',
  ]);
  const tokens = await run(['token', 'list']);
  expect(tokens.out).toMatch(/^project create +\S+ +\S+ +20\S+Z \(with its key\) +-$/m);
  expect(tokens.out).toMatch(/^credentials\.json +\S+ +\S+ +never +-$/m);

  // Without a new one, the command line could not send any more.
  const [jti, other] = [
    String(decodeJwt(renewed.project_jwt)?.jti),
    await json(['token', 'issue', '--name', 'ci']),
  ];
  const kept = { credentials_file_renewed: false };
  expect(await json(['token', 'revoke', other.jti ?? ''])).toMatchObject(kept);
  expect((await run(['token', 'revoke', jti])).out).toMatch(/\.\ncredentials\.json has a new one\.\n$/);
  const { project_jwt: current } = JSON.parse(await readFile(file(), 'utf8'));
  expect(current).not.toBe(renewed.project_jwt);
  const listed = (await run(['token', 'list'])).out;
  expect(listed).toMatch(new RegExp(`^credentials\\.json +${decodeJwt(current)?.jti} .* -$`, 'm'));

  const byState = (state: string) => keys.find((key) => key.state === state)?.id ?? '';
  expect((await run(['project', 'keys', 'remove', byState('valid')])).err).toContain('is still valid');
  expect((await run(['project', 'keys', 'remove', byState('current')])).err).toContain('no former key');
  expect((await run(['project', 'keys', 'remove', byState('ended')])).out).toContain('was removed');

  // Without the old key nothing can be resealed.
  const forgotten = await run(['reseal', '--json'], NEW);
  expect(forgotten).toMatchObject({ code: 1, err: '' });
  expect(JSON.parse(forgotten.out).keys).toEqual([
    { id: expect.any(String), state: 'current', secrets: 0 },
    { id: expect.any(String), state: 'missing', secrets: 3 },
  ]);

  const resealed = await json<{ keys: object[] }>(['reseal'], `${NEW},${OLD}`);
  expect(resealed.keys).toEqual([
    { id: expect.any(String), state: 'current', secrets: 3 },
    { id: expect.any(String), state: 'former', secrets: 0 },
  ]);
  expect((await run(['reseal'], `${NEW},${OLD}`)).out).toMatch(
    / former +0 +can be removed from SECRET_KEY$/m,
  );
  expect(await json<object[]>(['project', 'keys', 'list'], NEW)).toHaveLength(3);
  expect((await run(['project', 'keys', 'list'], OLD)).err).toContain('run the command with the settings');
});

test('a token can be valid for ever, and one of several projects must be named', async () => {
  await Promise.all([run(['project', 'create', 'one'], NEW), run(['project', 'create', 'two'], NEW)]);
  const issue = ['token', 'issue', '--name', 'x', '--expires', 'never'];
  const unnamed = await run(issue, NEW);
  expect(unnamed).toMatchObject({ code: 2, err: expect.stringMatching(/projects: choose one of .*one/) });
  const issued = await json([...issue, '--project', 'one'], NEW);
  expect(issued.expires_at).toBeNull();
  const user = ['token', 'user', '--project', 'two', '--external-id', 'ada', '--expires', 'never'];
  expect(decodeJwt((await json(user, NEW)).user_jwt ?? '')).not.toHaveProperty('exp');
});

test('a secret is shown although credentials.json cannot be written', async () => {
  const project = await json(['project', 'create', 'unwritable'], NEW);
  const ownDir = join(dataDir, 'unwritable');
  await mkdir(ownDir);
  await writeFile(join(ownDir, 'credentials.json'), JSON.stringify(project));
  // The user of the tests may write everywhere, so a directory with the name of the draft replaces a
  // read-only file system.
  const draft = JSON.stringify(`${ownDir}/credentials.json.`);
  const preload = `import fs from 'node:fs'; fs.mkdirSync(${draft} + process.pid);`;
  const { code, out, err } = await ended(
    belfry(['project', 'keys', 'roll', 'api-secret', '--project', 'unwritable', '--json'], {
      ...settingsWith(NEW),
      ...{ DATA_DIR: ownDir, NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(preload)}` },
    }),
  );
  expect({ code, err }).toEqual({
    code: 1,
    err: expect.stringMatching(
      /^belfry: the key was rolled, but credentials\.json could not be written .*\n$/,
    ),
  });
  const rolled = JSON.parse(out);
  expect(rolled).toMatchObject({
    api_secret: expect.stringMatching(/^sk_/),
    credentials_file_renewed: false,
  });
  const user = ['token', 'user', '--project', 'unwritable', '--external-id', 'ada'];
  const { user_jwt = '' } = await json(user, NEW);
  expect((await verifyJwt(user_jwt, createSecretKey(Buffer.from(rolled.api_secret)), Date.now())).ok).toBe(
    true,
  );
});

test('a former key whose SECRET_KEY is lost can be found and removed', async () => {
  const lost = '33'.repeat(32);
  await json(['project', 'create', 'lost'], `${lost},${NEW}`);
  const of = ['--project', 'lost'];
  for (const key of ['api-secret', 'signing-key'])
    await json(['project', 'keys', 'roll', key, ...of, '--overlap', '0'], `${NEW},${lost}`);
  const keys = await json<Record<string, string>[]>(['project', 'keys', 'list', ...of], NEW);
  const ended = keys.filter(({ state }) => state === 'ended').map(({ id }) => id ?? '');
  expect(ended).toHaveLength(2);
  for (const id of ended) await json(['project', 'keys', 'remove', id, ...of], NEW);
  expect(await json<object[]>(['project', 'keys', 'list', ...of], NEW)).toHaveLength(2);
});
