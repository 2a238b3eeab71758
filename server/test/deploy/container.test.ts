import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { freePort } from '../../src/lib/free-port.ts';

// The image and compose.yaml, run by Docker as the guide says: `npm run proof:container`. Docker may have to
// fetch the base images.

const run = promisify(execFile);
const root = fileURLToPath(new URL('../../../', import.meta.url));
const guide = readFileSync(join(root, 'docs/guides/deploying.md'), 'utf8');
const name = `belfry-proof-${randomBytes(4).toString('hex')}`;
const BUILD_MS = 900_000;
const RUN_MS = 180_000;

describe.skipIf(process.env.CONTAINER !== '1')('in containers', { timeout: RUN_MS }, () => {
  beforeAll(async () => {
    await docker('build', '--tag', name, root);
    return async () => void (await docker('image', 'rm', '--force', name));
  }, BUILD_MS);

  test('the image keeps what it accepted when it is killed, and stops in time', async () => {
    const port = await freePort();
    onTestFinished(async () => {
      await docker('rm', '--force', '--volumes', name);
      await docker('volume', 'rm', '--force', name);
    });
    await docker(...commandOfGuide('docker run', { port }));
    const belfry = (...args: string[]) => docker('exec', name, 'belfry', ...args);
    await vi.waitFor(async () => expect(await healthOf(name)).toBe('healthy'), patient);
    expect(await belfry('doctor')).toContain('0 problems, 0 warnings');
    const id = await belfry('send', '--to', 'ada', '--title', 'From a container');
    await docker('kill', name);
    await docker('start', name);
    await vi.waitFor(() => ready(port), patient);
    expect(await belfry('status', id)).toContain('processed');

    await docker('stop', name);
    expect(await docker('inspect', name, '--format', '{{.State.ExitCode}}')).toBe('0');
    expect(await docker('run', '--rm', '--volume', `${name}:/data`, name, 'doctor')).toContain(
      '0 problems, 0 warnings',
    );
    const backup = ['backup', '/data/belfry.backup'];
    expect(await docker('run', '--rm', '--volume', `${name}:/data`, name, ...backup)).toContain('contains');
  });

  test('the image contains a list of its packages, and runs as a user without rights', async () => {
    const inImage = (...command: string[]) =>
      docker('run', '--rm', '--read-only', '--entrypoint', command[0] as string, name, ...command.slice(1));
    expect(await inImage('id', '-u')).toBe('10001');
    const list = JSON.parse(await inImage('cat', '/app/sbom.cdx.json'));
    expect(list).toMatchObject({ bomFormat: 'CycloneDX' });
    expect(list.components.map((one: { name: string }) => one.name)).toContain('fastify');
  });

  test('compose with a pooler and NATS sends, and continues after a crash of the database', async () => {
    const port = await freePort();
    const folder = await mkdtemp(join(tmpdir(), 'belfry-compose-'));
    await cp(join(root, 'compose.yaml'), join(folder, 'compose.yaml'));
    await writeFile(join(folder, '.env'), settings(port));
    const compose = (...args: string[]) =>
      docker('compose', '--project-directory', folder, '--project-name', name, ...args);
    onTestFinished(async () => {
      await compose('down', '--volumes', '--rmi', 'local', '--timeout', '1');
      await rm(folder, { recursive: true });
    });
    // The image is built already: compose would build it in the folder.
    await writeFile(
      join(folder, 'compose.override.yaml'),
      `services: { belfry: { build: !reset null, image: ${name} } }`,
    );
    await compose('up', '--detach', '--wait');
    const belfry = (...args: string[]) => compose('exec', '--no-TTY', 'belfry', 'belfry', ...args);
    expect(await belfry('doctor')).toContain('0 problems, 0 warnings');

    await compose('kill', 'postgres');
    await vi.waitFor(() => expect(ready(port)).rejects.toThrow(), patient);
    await compose('up', '--detach', '--wait');
    await vi.waitFor(() => ready(port), patient);
    const id = await belfry('send', '--to', 'ada', '--title', 'From compose');
    await vi.waitFor(async () => expect(await belfry('status', id)).toContain('processed'), patient);
  });
});

const patient = { timeout: 60_000, interval: 500 };

async function docker(...args: string[]): Promise<string> {
  const { stdout } = await run('docker', args, { maxBuffer: 16 * 1024 * 1024 });
  return stdout.trim();
}

/** The arguments of a command of the guide, for a container, a volume and an image of this test. */
function commandOfGuide(command: string, { port }: { port: number }): string[] {
  const [text = ''] = new RegExp(`^${command} .*?[^\\\\]$`, 'ms').exec(guide) ?? [];
  const words = text.replaceAll('\\\n', ' ').split(/\s+/).slice(1);
  return words.map((word) => {
    if (word === '127.0.0.1:3000:3000') return `127.0.0.1:${port}:3000`;
    return word.replace(/^belfry(?=$|:\/data$)/, name);
  });
}

function healthOf(container: string): Promise<string> {
  return docker('inspect', container, '--format', '{{.State.Health.Status}}');
}

async function ready(port: number): Promise<void> {
  const { status } = await fetch(`http://127.0.0.1:${port}/readyz`);
  if (status !== 200) throw new Error(`readyz responded ${status}`);
}

/** The example of the settings with all profiles. */
function settings(port: number): string {
  return readFileSync(join(root, 'deploy/compose.env'), 'utf8')
    .replaceAll(/^# (?=[A-Z_]+=)/gm, '')
    .replace('COMPOSE_PROFILES=pgbouncer', 'COMPOSE_PROFILES=pgbouncer,nats')
    .replace(/^POSTGRES_PASSWORD=$/m, `$&${randomBytes(24).toString('hex')}`)
    .replace(/^SECRET_KEY=$/m, `$&${randomBytes(32).toString('hex')}`)
    .replace(/^LISTEN=.*$/m, `LISTEN=127.0.0.1:${port}`);
}
