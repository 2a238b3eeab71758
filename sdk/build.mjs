// npm run build -w @belfry/sdk [-- <folder>]: builds the package to publish, in dist/ or the given folder.
//
// In this repository the package is its TypeScript source, which Node 24 and bundlers run as it is. The
// published package has JavaScript for Node 20 and browsers, declarations, and a package.json of its own.
import { execFileSync } from 'node:child_process';
import { copyFileSync, cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const root = dirname(here);
const out = resolve(process.argv[2] ?? join(here, 'dist'));
const readJson = (path) => JSON.parse(readFileSync(path, 'utf8'));

rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
const code = join(out, 'dist');
compile(['-p', join(here, 'tsconfig.json'), '--outDir', code]);
correctDeclarations(code);
writeFileSync(join(out, 'package.json'), `${JSON.stringify(manifest(), null, 2)}\n`);
copyFileSync(join(here, 'README.md'), join(out, 'README.md'));
copyFileSync(join(root, 'LICENSE'), join(out, 'LICENSE'));
cpSync(join(here, 'examples'), join(out, 'examples'), { recursive: true });
console.log(out);

/** Runs the compiler of this repository. npm fetches it alone if the development tools are not installed. */
function compile(args) {
  const { version } = readJson(join(root, 'package-lock.json')).packages['node_modules/typescript'];
  try {
    const tsc = createRequire(import.meta.url).resolve('typescript/bin/tsc');
    execFileSync(process.execPath, [tsc, ...args], { stdio: 'inherit' });
  } catch (error) {
    if (error.code !== 'MODULE_NOT_FOUND') throw error;
    const npm = ['exec', '--yes', `--package=typescript@${version}`, '--', 'tsc', ...args];
    execFileSync('npm', npm, { stdio: 'inherit', shell: process.platform === 'win32' });
  }
}

/** The published package.json: other exports, and nothing that forbids to publish it. */
function manifest() {
  const {
    private: _private,
    scripts: _scripts,
    devDependencies: _devDependencies,
    ...kept
  } = readJson(join(here, 'package.json'));
  return {
    ...kept,
    exports: {
      '.': { types: './dist/index.d.ts', default: './dist/index.js' },
      './package.json': './package.json',
    },
    types: './dist/index.d.ts', // for tools that do not read `exports`
    files: ['dist', 'examples'],
  };
}

/** Renames `./x.ts` to `./x.js` in declarations. The compiler does that in code only. */
function correctDeclarations(folder) {
  for (const entry of readdirSync(folder, { withFileTypes: true, recursive: true })) {
    if (!entry.name.endsWith('.d.ts')) continue;
    const file = join(entry.parentPath ?? entry.path, entry.name);
    const text = readFileSync(file, 'utf8');
    writeFileSync(file, text.replace(/(from '\.{1,2}\/[^']*)\.ts'/g, "$1.js'"));
  }
}
