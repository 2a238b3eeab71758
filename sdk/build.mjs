// npm run build -w @belfry/sdk [-- <folder>]: makes the package as it is published, in dist/ or the folder
// given.
//
// In this repository the package is its TypeScript source, which Node 24 and bundlers run as it is.
// Published, it is JavaScript for Node 20 and browsers with declarations beside it; its package.json differs,
// so what is published is a folder of its own.
import { execFileSync } from 'node:child_process';
import { copyFileSync, cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ensureInstalled } from '../bin/install.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const out = resolve(process.argv[2] ?? join(here, 'dist'));

await ensureInstalled({ dev: true }); // the compiler
rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
const tsc = createRequire(import.meta.url).resolve('typescript/bin/tsc');
const code = join(out, 'dist');
execFileSync(process.execPath, [tsc, '-p', join(here, 'tsconfig.json'), '--outDir', code], {
  stdio: 'inherit',
});
mendDeclarations(code);
writeFileSync(join(out, 'package.json'), `${JSON.stringify(manifest(), null, 2)}\n`);
copyFileSync(join(here, 'README.md'), join(out, 'README.md'));
copyFileSync(join(here, '../LICENSE'), join(out, 'LICENSE'));
cpSync(join(here, 'examples'), join(out, 'examples'), { recursive: true });

/** The published package.json: what differs is where the code is, and that it may be published. */
function manifest() {
  const {
    private: _private,
    scripts: _scripts,
    ...kept
  } = JSON.parse(readFileSync(join(here, 'package.json'), 'utf8'));
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

/** The compiler renames `./x.ts` to `./x.js` in code, but not in declarations. */
function mendDeclarations(folder) {
  for (const entry of readdirSync(folder, { withFileTypes: true, recursive: true })) {
    if (!entry.name.endsWith('.d.ts')) continue;
    const file = join(entry.parentPath ?? entry.path, entry.name);
    const text = readFileSync(file, 'utf8');
    writeFileSync(file, text.replace(/(from '\.{1,2}\/[^']*)\.ts'/g, "$1.js'"));
  }
}
