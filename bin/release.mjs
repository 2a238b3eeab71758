// npm run release -- 0.2.0 [--dry-run]: makes a release, as a commit with a tag and as files in dist/. It
// pushes and publishes nothing. With --dry-run it checks what it can, and writes no file.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { LaunchError, launch, root } from './runtime.mjs';

const WORKSPACES = ['.', 'server', 'sdk', 'inbox', 'dashboard'];
const CHART = 'deploy/helm/belfry/Chart.yaml';
// The rules for migrations apply to those after the newest release.
const RELEASED = 'server/test/database/released.json';
const MIGRATIONS = 'server/src/db/migrations';

const [version = '', ...flags] = process.argv.slice(2);

await launch(() => {
  const { version: before } = JSON.parse(read('package.json'));
  checkVersion(before);
  const tree = git('status', '--porcelain');
  if (tree !== '') throw new LaunchError(`commit these changes first, or remove them:\n${tree}`);
  if (git('tag', '--list', `v${version}`) !== '') throw new LaunchError(`the tag v${version} exists`);
  const changes = releaseFiles(before);
  if (flags.includes('--dry-run')) {
    console.log(`${before} → ${version} would change ${Object.keys(changes).join(', ')}`);
    console.log(`with these changes:\n\n${unreleased()}`);
    return;
  }
  for (const [path, text] of Object.entries(changes)) writeFileSync(join(root, path), text);
  run('npm', 'run', 'generate'); // the descriptions of the API name the release
  run('npm', 'test');
  run('npm', 'run', 'build', '--', 'dist');
  writeFileSync(join(root, 'dist', 'SHA256SUMS'), checksums());
  git('commit', '--all', '--message', `Release ${version}`);
  git('tag', '--annotate', `v${version}`, '--message', `Belfry ${version}`);
  console.log(`dist/ has the files of ${version}. Push the commit and the tag, then publish the packages:`);
  console.log(`  git push --follow-tags\n  npm publish dist/belfry-sdk-${version}.tgz, and the other two`);
});

/** The version must be a plain one, and the one after `before`. */
function checkVersion(before) {
  const parts = /^(\d+)\.(\d+)\.(\d+)$/.exec(version)?.slice(1).map(Number);
  if (parts === undefined) throw new LaunchError('name the new version, such as 0.2.0');
  const [major, minor, patch] = before.split('.').map(Number);
  const next = [`${major + 1}.0.0`, `${major}.${minor + 1}.0`, `${major}.${minor}.${patch + 1}`];
  // The first release has the version that is already there.
  if (git('tag', '--list', 'v*') === '') next.push(before);
  if (!next.includes(version))
    throw new LaunchError(`${version} does not follow ${before}: take ${next.join(' or ')}`);
}

/** The files with the version or the schema, as they will be. */
function releaseFiles(before) {
  const files = {};
  for (const workspace of WORKSPACES) {
    const path = join(workspace, 'package.json');
    files[path] = read(path).replaceAll(/("(?:version|@belfry\/\w+)": )"([^"]+)"/g, (all, name, old) =>
      old === before ? `${name}"${version}"` : all,
    );
  }
  const lock = JSON.parse(read('package-lock.json'));
  lock.version = version;
  for (const workspace of WORKSPACES) {
    const entry = lock.packages[workspace === '.' ? '' : workspace];
    entry.version = version;
    for (const name of Object.keys(entry.dependencies ?? {}))
      if (name.startsWith('@belfry/')) entry.dependencies[name] = version;
  }
  files['package-lock.json'] = `${JSON.stringify(lock, null, 2)}\n`;
  files[CHART] = read(CHART).replaceAll(/^((?:appV|v)ersion: ).*$/gm, `$1${version}`);
  files[RELEASED] = `{ "schema": ${newestSchema()} }\n`;
  const today = new Date().toISOString().slice(0, 10);
  if (unreleased() === '') throw new LaunchError('CHANGELOG.md has nothing under "Unreleased"');
  const heading = `## Unreleased\n\n## ${version} (${today})\n`;
  files['CHANGELOG.md'] = read('CHANGELOG.md').replace('## Unreleased\n', heading);
  return files;
}

/** The number of the newest migration. */
function newestSchema() {
  const names = readdirSync(join(root, MIGRATIONS));
  return Math.max(...names.map((name) => Number(/^(\d{4})_.+\.sql$/.exec(name)?.[1] ?? 0)));
}

/** The section of the changelog that becomes that of the release. */
function unreleased() {
  return /^## Unreleased\n(.*?)(?=^## |$(?![\s\S]))/ms.exec(read('CHANGELOG.md'))?.[1].trim() ?? '';
}

/** One line for each file of the release, as sha256sum prints it. */
function checksums() {
  return readdirSync(join(root, 'dist'))
    .filter((name) => name.includes(version))
    .map((name) => {
      const hash = createHash('sha256')
        .update(readFileSync(join(root, 'dist', name)))
        .digest('hex');
      return `${hash}  ${name}\n`;
    })
    .join('');
}

function read(path) {
  return readFileSync(join(root, path), 'utf8');
}

function git(...args) {
  return execFileSync('git', args, { cwd: root, encoding: 'utf8' }).trim();
}

function run(command, ...args) {
  execFileSync(command, args, { cwd: root, stdio: 'inherit', shell: process.platform === 'win32' });
}
