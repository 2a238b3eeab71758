import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';

const run = promisify(execFile);
const root = fileURLToPath(new URL('../../../', import.meta.url));
const FILES = [
  'bin/release.mjs',
  'bin/runtime.mjs',
  'package.json',
  'package-lock.json',
  'server/package.json',
  'sdk/package.json',
  'inbox/package.json',
  'dashboard/package.json',
  'deploy/helm/belfry/Chart.yaml',
  'server/test/database/released.json',
];

const { version: before } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  version: string;
};
const [major = 0, minor = 0] = before.split('.').map(Number);
const next = `${major}.${minor + 1}.0`;

/** A repository with the files that have the version, and an npm that only records its calls. */
let copy: string;
const git = (...args: string[]) =>
  run('git', ['-c', 'user.name=a', '-c', 'user.email=a@example.com', ...args], { cwd: copy });
const release = (...args: string[]) =>
  run(process.execPath, [join(copy, 'bin/release.mjs'), ...args], {
    env: {
      ...process.env,
      PATH: `${join(copy, '.git/path')}:${process.env.PATH}`,
      GIT_AUTHOR_NAME: 'a',
      GIT_AUTHOR_EMAIL: 'a@example.com',
      GIT_COMMITTER_NAME: 'a',
      GIT_COMMITTER_EMAIL: 'a@example.com',
    },
  });
const refused = (...args: string[]) =>
  release(...args).then(
    () => 'released',
    ({ stderr }: { stderr: string }) => stderr,
  );

// It writes the files of a build to dist, which must be empty before.
const NPM = `#!/bin/sh
echo "$*" >> .git/npm.log
if [ "$2" = build ]; then mkdir dist; echo > dist/belfry-${next}.tgz; fi
`;

beforeAll(async () => {
  copy = await mkdtemp(join(tmpdir(), 'belfry-release-'));
  for (const file of FILES) {
    await mkdir(dirname(join(copy, file)), { recursive: true });
    await cp(join(root, file), join(copy, file));
  }
  await mkdir(join(copy, 'server/src/db/migrations'), { recursive: true });
  for (const file of ['0099_old.sql', '0100_new.sql', 'notes.md'])
    await writeFile(join(copy, 'server/src/db/migrations', file), '');
  await writeFile(join(copy, 'CHANGELOG.md'), '# Changelog\n\n## Unreleased\n\n- Something new.\n');
  await writeFile(join(copy, '.gitignore'), '/dist/\n');
  await git('init', '--quiet');
  await mkdir(join(copy, '.git/path'));
  await writeFile(join(copy, '.git/path/npm'), NPM, {
    mode: 0o755,
  });
  await git('add', '--all');
  await git('commit', '--quiet', '--message', 'Start');
});
afterAll(() => rm(copy, { recursive: true, force: true }));

test('a release that does not follow, has no version or a changed tree is refused', async () => {
  expect(await refused()).toContain('name the new version');
  expect(await refused('9.9.9')).toContain('9.9.9 does not follow');
  await writeFile(join(copy, 'new.txt'), '');
  expect(await refused(next)).toContain('commit these changes first, or remove them:\n?? new.txt');
  await rm(join(copy, 'new.txt'));
});

test('a dry run shows the changes, and writes nothing', async () => {
  const { stdout } = await release(next, '--dry-run');
  expect(stdout).toContain(`${before} → ${next} would change`);
  expect(stdout).toContain('- Something new.');
  expect((await git('status', '--porcelain')).stdout).toBe('');
});

test('a release has its version and schema in every file, a changelog, a commit and a tag', async () => {
  await release(next);
  expect((await git('log', '--format=%s', '-1')).stdout).toBe(`Release ${next}\n`);
  expect((await git('tag')).stdout).toBe(`v${next}\n`);
  expect((await git('status', '--porcelain')).stdout).toBe('');
  for (const file of FILES.filter((name) => /package\.json$|Chart/.test(name))) {
    const text = await readFile(join(copy, file), 'utf8');
    expect(text, file).toMatch(new RegExp(`version"?: "?${next}`));
  }
  const lock = JSON.parse(await readFile(join(copy, 'package-lock.json'), 'utf8'));
  expect(lock.packages.inbox).toMatchObject({ version: next, dependencies: { '@belfry/sdk': next } });
  const released = await readFile(join(copy, 'server/test/database/released.json'), 'utf8');
  expect(JSON.parse(released)).toEqual({ schema: 100 });
  expect(await readFile(join(copy, 'CHANGELOG.md'), 'utf8')).toMatch(
    new RegExp(`^## Unreleased\n\n## ${next} \\(\\d{4}-\\d\\d-\\d\\d\\)\n\n- Something new`, 'm'),
  );
  const calls = (await readFile(join(copy, '.git/npm.log'), 'utf8')).trim().split('\n');
  expect(calls).toEqual(['run generate', 'test', 'run build -- dist']);
  expect(await readFile(join(copy, 'dist/SHA256SUMS'), 'utf8')).toMatch(
    new RegExp(`^[0-9a-f]{64}  belfry-${next}.tgz\n$`),
  );
  expect(await refused(`${major}.${minor + 2}.0`)).toContain('CHANGELOG.md has nothing under "Unreleased"');
});
