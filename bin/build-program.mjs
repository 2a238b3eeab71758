// Builds the package `belfry` to publish. It has the tree of the repository, so that paths hold. Node strips
// no types inside of node_modules, so its code is JavaScript: each type is replaced by blanks, and every line
// and column of a stack trace is that of the source.
import { cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { join, resolve, sep } from 'node:path';
import { build } from 'esbuild';
import { buildSite } from '../docs/site/build/build-site.ts';
import { BASE } from '../server/src/http/docs/site.ts';
import { hashOfSources } from '../server/src/http/docs/sources.ts';
import { root } from './runtime.mjs';

/** What is copied as it is. The TypeScript of the server is compiled instead. */
const FILES = [
  'LICENSE',
  'README.md',
  'CHANGELOG.md',
  'bin/belfry.mjs',
  'bin/runtime.mjs',
  'server/package.json',
  'server/src',
  // What the server sends to browsers.
  'inbox/demo/demo.css',
  'inbox/src/web-push/service-worker.js',
];
const NOT_RUN = /\.test\.ts$|\.d\.ts$|\/example\.ts$|\/make-template\.ts$/;

// The package typebox, in one file below server/src. Otherwise a command loads 373 of its files, which takes
// a fifth of its time: 0.52 instead of 0.42 s.
const TYPEBOX = 'typebox.js';

/** Builds the package in the folder `out`, and returns it. */
export async function buildProgram(out) {
  const target = resolve(out);
  rmSync(target, { recursive: true, force: true });
  const server = join(root, 'server/src');
  const isCopied = (file) => !(file.startsWith(server) && file.endsWith('.ts'));
  for (const path of FILES)
    cpSync(join(root, path), join(target, path), { recursive: true, filter: isCopied });
  for (const path of readdirSync(server, { recursive: true })) {
    if (!path.endsWith('.ts') || NOT_RUN.test(path)) continue;
    const file = join(target, 'server/src', path.replace(/ts$/, 'js'));
    writeFileSync(file, compiled(readFileSync(join(server, path), 'utf8'), path));
  }
  await build({
    stdin: { contents: "export * from 'typebox';", resolveDir: join(root, 'server') },
    absWorkingDir: root, // comments in the file name paths below it
    outfile: join(target, 'server/src', TYPEBOX),
    bundle: true,
    format: 'esm',
    platform: 'node',
    banner: { js: `/*\n${readFileSync(join(root, 'node_modules/typebox/license'), 'utf8')}*/` },
    logLevel: 'silent', // errors are thrown
  });
  await build({
    entryPoints: [join(root, 'inbox/demo/demo.ts')],
    outfile: join(target, 'inbox/demo/demo.js'),
    bundle: true,
    format: 'esm',
    target: 'es2022',
    minify: true,
    legalComments: 'none',
    logLevel: 'silent', // errors are thrown
  });
  await buildSite({ output: join(target, 'docs-site', hashOfSources()), base: BASE, served: true });
  const lock = productionLock();
  writeJson(join(target, 'package.json'), manifestOf(lock));
  writeJson(join(target, 'npm-shrinkwrap.json'), lock);
  return target;
}

/** Removes the types from a file at `path` below server/src. Files import each other by their new names. */
function compiled(source, path) {
  const typebox = `${'../'.repeat(path.split(sep).length - 1) || './'}${TYPEBOX}`;
  return stripTypeScriptTypes(source)
    .replaceAll(/((?:\bfrom |\bimport\(|\bimport |\bnew URL\()'\.{1,2}\/[^']*)\.ts'/g, "$1.js'")
    .replaceAll("from 'typebox'", `from '${typebox}'`);
}

/** The published package.json. */
function manifestOf(lock) {
  const { name, version, description, license, type, engines, bin } = readJson('package.json');
  const { dependencies, optionalDependencies } = lock.packages[''];
  return { name, version, description, license, type, engines, bin, dependencies, optionalDependencies };
}

/**
 * The part of package-lock.json that the server needs, in which it and the launcher are one package. With it,
 * npm installs the very versions that the tests ran with. What builds the pages, a clone alone needs.
 */
function productionLock() {
  const { lockfileVersion, packages } = readJson('package-lock.json');
  const { '': launcher, server } = packages;
  const own = {
    name: launcher.name,
    version: launcher.version,
    license: launcher.license,
    dependencies: server.dependencies,
    optionalDependencies: { ...server.optionalDependencies, ...launcher.optionalDependencies },
    bin: launcher.bin,
    engines: launcher.engines,
  };
  const kept = new Map();
  for (const path of neededBy('server', own, packages)) {
    const place = path.replace(/^server\//, '');
    if (kept.has(place)) throw new Error(`two versions of ${place} are installed for production`);
    kept.set(place, packages[path]);
  }
  const entries = [...kept].sort(([a], [b]) => (a < b ? -1 : 1));
  return {
    name: own.name,
    version: own.version,
    lockfileVersion,
    requires: true,
    packages: { '': own, ...Object.fromEntries(entries) },
  };
}

/** The paths of all packages that `manifest`, which is at `folder`, depends on, itself or through others. */
function neededBy(folder, manifest, packages) {
  const found = new Set();
  const waiting = [[folder, manifest]];
  for (const [from, entry] of waiting) {
    const { dependencies = {}, optionalDependencies = {}, peerDependencies = {} } = entry;
    // It may use an optional peer if that is there, but does not bring it.
    const isBrought = (peer) => !entry.peerDependenciesMeta?.[peer]?.optional;
    const peers = Object.keys(peerDependencies).filter(isBrought);
    for (const name of [...Object.keys({ ...dependencies, ...optionalDependencies }), ...peers]) {
      const path = placeOf(name, from, packages);
      if (path === undefined && !(name in optionalDependencies))
        throw new Error(`package-lock.json lacks ${name}, which ${from} needs`);
      if (path === undefined || found.has(path)) continue;
      found.add(path);
      waiting.push([path, packages[path]]);
    }
  }
  return found;
}

/** Where Node finds a package that is imported by one at `from`: there, or in a folder above. */
function placeOf(name, from, packages) {
  const parts = from.split('/');
  for (let length = parts.length; length >= 0; length -= 1) {
    const path = [...parts.slice(0, length), 'node_modules', name].join('/');
    if (path in packages) return path;
  }
  return undefined;
}

function readJson(path) {
  return JSON.parse(readFileSync(join(root, path), 'utf8'));
}

function writeJson(path, value) {
  writeFileSync(path, `${JSON.stringify(value, null, 2)}\n`);
}

// The Dockerfile runs this file: it needs no package that only the development has.
if (import.meta.main) await buildProgram(process.argv[2]);
