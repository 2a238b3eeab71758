// Builds a package to publish from a workspace that is TypeScript: JavaScript for Node 20 and browsers,
// declarations, and a package.json of its own.
import { execFileSync } from 'node:child_process';
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const readJson = (path) => JSON.parse(readFileSync(path, 'utf8'));

/** Builds the workspace `name` in the folder `out`, and returns it. By default it is `<name>/dist`. */
export function buildPackage(name, out = join(root, name, 'dist')) {
  const source = join(root, name);
  const target = resolve(out);
  rmSync(target, { recursive: true, force: true });
  mkdirSync(target, { recursive: true });
  const temporary = mkdtempSync(join(tmpdir(), 'belfry-build-'));
  try {
    // The declarations refer to the declarations of other packages, not to their source.
    const paths = {};
    const manifest = readJson(join(source, 'package.json'));
    for (const dependency of Object.keys(manifest.dependencies ?? {}))
      paths[dependency] = [
        join(buildPackage(dependency.replace('@belfry/', ''), temporary), 'dist/index.d.ts'),
      ];
    compile(source, join(target, 'dist'), paths);
    writeFileSync(join(target, 'package.json'), `${JSON.stringify(published(manifest), null, 2)}\n`);
  } finally {
    rmSync(temporary, { recursive: true, force: true });
  }
  copyFileSync(join(source, 'README.md'), join(target, 'README.md'));
  copyFileSync(join(root, 'LICENSE'), join(target, 'LICENSE'));
  for (const path of Object.values(readJson(join(source, 'package.json')).exports))
    if (path.endsWith('.js')) cpSync(join(source, path), join(target, path.replace('./src', 'dist')));
  if (existsSync(join(source, 'examples')))
    cpSync(join(source, 'examples'), join(target, 'examples'), { recursive: true });
  return target;
}

/**
 * Runs the compiler of this repository. npm fetches it alone if the development tools are not installed. The
 * checks of the repository include the types, so that the build need not.
 */
function compile(source, out, paths) {
  const config = join(out, 'tsconfig.json');
  mkdirSync(out, { recursive: true });
  const compilerOptions = { outDir: out, rootDir: join(source, 'src'), paths, noCheck: true };
  const include = [join(source, 'src')];
  const settings = { extends: join(root, 'tsconfig.package.json'), compilerOptions, include };
  writeFileSync(config, JSON.stringify(settings));
  const { version } = readJson(join(root, 'package-lock.json')).packages['node_modules/typescript'];
  try {
    const tsc = createRequire(import.meta.url).resolve('typescript/bin/tsc');
    execFileSync(process.execPath, [tsc, '-p', config], { stdio: 'inherit' });
  } catch (error) {
    if (error.code !== 'MODULE_NOT_FOUND') throw error;
    const npm = ['exec', '--yes', `--package=typescript@${version}`, '--', 'tsc', '-p', config];
    execFileSync('npm', npm, { stdio: 'inherit', shell: process.platform === 'win32' });
  }
  rmSync(config);
  correctDeclarations(out);
  shortenStyles(out);
}

/** The published package.json: the built files, and nothing that forbids to publish it. */
function published({ private: _private, scripts: _scripts, devDependencies: _devDependencies, ...kept }) {
  const built = (path) => path.replace('./src/', './dist/').replace(/\.ts$/, '.js');
  const entries = Object.entries(kept.exports).map(([name, path]) => [
    name,
    path.endsWith('.ts')
      ? { types: built(path).replace(/\.js$/, '.d.ts'), default: built(path) }
      : built(path),
  ]);
  const { sideEffects } = kept;
  return {
    ...kept,
    sideEffects: Array.isArray(sideEffects) ? sideEffects.map(built) : sideEffects,
    exports: { ...Object.fromEntries(entries), './package.json': './package.json' },
    types: entries[0][1].types, // for tools that do not read `exports`
    files: ['dist', 'examples'],
  };
}

/** Renames `./x.ts` to `./x.js` in declarations. The compiler does that in code only. */
function correctDeclarations(folder) {
  for (const entry of readdirSync(folder, { withFileTypes: true, recursive: true })) {
    if (!entry.name.endsWith('.d.ts')) continue;
    const file = join(entry.parentPath ?? entry.path, entry.name);
    const text = readFileSync(file, 'utf8');
    writeFileSync(file, text.replace(/((?:from |import\()['"]\.{1,2}\/[^'"]*)\.ts(['"])/g, '$1.js$2'));
  }
}

/** Removes the white space and the comments of styles, which bundlers leave in their strings. */
function shortenStyles(folder) {
  for (const entry of readdirSync(folder, { withFileTypes: true, recursive: true })) {
    if (!entry.name.endsWith('.js')) continue;
    const file = join(entry.parentPath ?? entry.path, entry.name);
    const text = readFileSync(file, 'utf8');
    const shortened = text.replace(/\/\* css \*\/ (`[^`]*`)/g, (_, css) =>
      css
        .replace(/\/\*.*?\*\//gs, '')
        .replace(/("[^"]*")|[^"]+/g, (part, string) => string ?? shortenedRules(part)),
    );
    if (shortened !== text) writeFileSync(file, shortened);
  }
}

/** Styles without strings, in which white space has a meaning. */
function shortenedRules(css) {
  return css
    .replace(/\s+/g, ' ')
    .replace(/ ?([{};,]) ?/g, '$1')
    .replaceAll(': ', ':')
    .replaceAll(';}', '}');
}
