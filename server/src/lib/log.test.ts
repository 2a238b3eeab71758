import { createSecretKey } from 'node:crypto';
import { expect, test } from 'vitest';
import { signJwt } from './jwt.ts';
import { createLogger, hideSecrets } from './log.ts';

const CANARY = 'canary-3f9a';
const JWT = await signJwt({ sub: 'x', note: CANARY }, createSecretKey(Buffer.from('k')));

function linesOf(log: (logger: ReturnType<typeof createLogger>) => void): string {
  const lines: string[] = [];
  log(createLogger({ level: 'trace', stream: { write: (line) => void lines.push(line) } }));
  return lines.join('');
}

test('a secret never appears, under any name and at any depth', () => {
  const names = [
    'authorization',
    'Authorization',
    'password',
    'certificate',
    'token',
    'device_token',
    'api_secret',
    'apiSecret',
    'x-service-api-secret',
    'x-acme-api-secret',
    'X-SERVICE-USER-HMAC',
    'secret_key',
    'private_key',
    'privateKey',
    'client_secret',
    'signing_secret',
    'access_token',
    'refreshToken',
    'cookie',
    'SECRET_KEY',
    'webhook_signing_secret',
    'project_jwt',
    'api_key',
    'auth_token',
    'pass',
  ];
  for (const name of names) {
    const text = linesOf((log) => {
      log.info({ [name]: CANARY }, 'flat');
      log.info({ a: { b: [{ [name]: `with "quotes" \\ and ${CANARY}` }] } }, 'deep');
      log.info({ [name]: [CANARY, CANARY] }, 'list');
      log.child({ [name]: CANARY }).warn('child');
      log.info({ [name]: { inner: `] } ${CANARY}`, list: [CANARY] } }, 'object');
      log.info({ a: JSON.stringify({ b: JSON.stringify({ [name]: `${CANARY} "\\` }) }) }, 'twice wrapped');
      log.info({ body: JSON.stringify({ [name]: `${CANARY} "x"` }) }, 'JSON within a string');
      log.error({ err: Object.assign(new Error('x'), { [name]: CANARY }) }, 'of an error');
    });
    expect(text, name).not.toContain(CANARY);
    expect(
      text
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line)),
    ).toHaveLength(8);
  }
});

test('texts that look like secrets are hidden in messages and stacks', () => {
  const text = linesOf((log) => {
    log.info(`Authorization: Bearer ${CANARY}`);
    log.info(`the token ${JWT} came`);
    log.info(`sk_${CANARY}`);
    log.info(`postgres://belfry:${CANARY}@localhost/x`);
    log.info(`GET /?api_key=pk_1&token=${CANARY}&x=1`);
    log.error(
      new Error(`connect to smtp://u:${CANARY}@mail.example`, { cause: new Error(`Bearer ${CANARY}`) }),
    );
    log.info({ pem: `-----BEGIN PRIVATE KEY-----\n${CANARY}\n-----END PRIVATE KEY-----\n` });
  });
  expect(text).not.toContain(CANARY);
  expect(text).not.toContain(JWT);
  expect(text).toContain('postgres://belfry:[hidden]@localhost/x');
  expect(text).toContain('&x=1');
});

test('a JWT is hidden beside other words', () => {
  const jwt = `eyJ${'a'.repeat(20)}.${'b'.repeat(10)}.c-c_c`;
  expect(hideSecrets(`x.${jwt} token-${jwt}, eyJ-${jwt}.d`)).toBe('x.[hidden] token-[hidden], [hidden].d');
});

test('other texts stay unchanged', () => {
  const line =
    '{"level":"info","token_id":"0197","url":"http://localhost:3000/v2","tokens":3,' +
    '"msg":"secretary of the password club"}';
  expect(hideSecrets(line)).toBe(line);
});

test('hiding takes time linear to the line', () => {
  const hostile = [
    `{"password":"${'\\"'.repeat(50_000)}`,
    '\\'.repeat(100_000),
    '"token":'.repeat(12_000),
    'a:'.repeat(50_000),
    '-eyJ'.repeat(25_000),
    '"a_'.repeat(30_000),
    `"token":[${'['.repeat(50_000)}`,
    `"token\\":\\"${'\\'.repeat(50_000)}`,
    '-----BEGIN '.repeat(9_000),
  ];
  for (const line of hostile) {
    const before = process.cpuUsage(); // not wall-clock time: other tests share the processor
    hideSecrets(line);
    expect(process.cpuUsage(before).user / 1_000, line.slice(0, 20)).toBeLessThan(1_000);
  }
});

test('warnings that differ in nothing but their time are written once', () => {
  const text = linesOf((log) => {
    const failed = (kind: string, message: string) => log.warn({ err: new Error(message), kind }, 'failed');
    for (let second = 0; second < 3; second += 1) failed('a', 'no connection');
    failed('b', 'no connection');
    failed('a', 'no memory');
    log.child({ cell: 'x' }).warn({ err: new Error('no memory'), kind: 'a' }, 'failed');
    log.error({ err: new Error('no memory'), kind: 'a' }, 'failed');
    for (let second = 0; second < 3; second += 1) log.warn('a text alone');
    for (let second = 0; second < 3; second += 1) log.info('no warning');
  });
  expect(text.match(/"msg":"failed"/g)).toHaveLength(5);
  expect(text.match(/a text alone/g)).toHaveLength(1);
  expect(text.match(/no warning/g)).toHaveLength(3);
});

test('what cannot be compared is written each time', () => {
  const circle: Record<string, unknown> = {};
  circle.self = circle;
  const text = linesOf((log) => {
    for (let second = 0; second < 3; second += 1) log.warn({ circle, count: 1n }, 'failed');
  });
  expect(text.match(/"msg":"failed"/g)).toHaveLength(3);
});
