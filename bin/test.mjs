// npm test: installs what the tests need, runs the checks, then the tests.
//   npm test                    everything
//   npm test -- broadcasts      only the test files whose path contains this
//   npm run lint                only the checks
//   npm run proof:citus -- <url of the coordinator>
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { countResults } from './count-results.mjs';
import { ensureDebianPackages } from './debian-packages.mjs';
import { ensureInstalled } from './install.mjs';
import { findNode, launch, root, scriptEnv } from './runtime.mjs';

const CHECKS = [
  [
    'format and lint',
    'node_modules/@biomejs/biome/bin/biome',
    'ci',
    '--error-on-warnings',
    '--colors=off',
    '.',
  ],
  // TypeScript 7 needs half the time. Other tools use the API of TypeScript 6, which 7 does not have.
  ['types', 'node_modules/typescript-7/bin/tsc', '-p', 'tsconfig.json'],
  ['types of the inbox', 'node_modules/typescript-7/bin/tsc', '-p', 'inbox/tsconfig.json'],
  [
    'import rule',
    'node_modules/dependency-cruiser/bin/dependency-cruiser.mjs',
    '{server,bench,docs,examples,sdk,dashboard,inbox}/**/*.{ts,tsx}',
  ],
  [
    'folder cycles',
    'node_modules/dependency-cruiser/bin/dependency-cruiser.mjs',
    '--config',
    '.dependency-cruiser.folders.cjs',
    'server/src/domain',
  ],
  ['unused code', 'node_modules/knip/bin/knip.js', '--no-progress'],
  ['packages and licences', 'bin/packages.mjs'],
  ['language', 'bin/language.mjs'],
  ['links', 'bin/links.mjs'],
  ['generated files', 'server/src/main.ts', 'generate', '--check'],
];
const AT_ONCE = 2; // each runs one or two threads

await launch(async () => {
  await ensureInstalled({ dev: true });
  const filters = process.argv.slice(2);
  const option = filters.indexOf('--citus');
  const [, citus] = option < 0 ? [] : filters.splice(option, 2);
  if (option >= 0 && citus === undefined) throw new Error('give the URL of a coordinator of Citus');
  if (citus !== undefined) filters.push('--no-file-parallelism'); // a test crashes a worker
  const lintOnly = filters[0] === '--lint';
  const failedChecks = filters.length === 0 || lintOnly ? await runChecks() : 0;
  if (lintOnly) process.exitCode = failedChecks > 0 ? 1 : 0;
  else {
    ensureDebianPackages();
    await runTests(filters, failedChecks, citus === undefined ? {} : { TEST_CITUS: citus });
  }
});

/** Runs all checks, prints the output of those that fail, and returns how many did. */
async function runChecks() {
  let failed = 0;
  const waiting = [...CHECKS];
  const worker = async () => {
    for (let check = waiting.shift(); check; check = waiting.shift()) {
      const [name, ...command] = check;
      const startedAt = performance.now();
      const { code, output } = await run(command, { capture: true });
      const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
      console.log(`${code === 0 ? 'ok    ' : 'FAILED'} ${name} (${seconds} s)`);
      if (code !== 0) {
        failed += 1;
        console.log(output.trimEnd());
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return failed;
}

/**
 * Runs the tests and prints one line that counts them. A failed check counts as a failed test. Of an
 * interrupted run, it counts what is finished.
 */
async function runTests(filters, failedChecks, env) {
  const folder = mkdtempSync(join(tmpdir(), 'belfry-test-'));
  try {
    const results = join(folder, 'results');
    const reporters = ['--reporter=default', `--reporter=${join(root, 'bin/results-reporter.mjs')}`];
    const { code, signal } = await run(['node_modules/vitest/vitest.mjs', 'run', ...reporters, ...filters], {
      capture: false,
      env: { ...env, TEST_RESULTS: results },
    });
    const { passed, failed, skipped, flaky, files, ended } = countResults(results);
    const isInterrupted = signal !== undefined && !ended;
    // An error outside of the tests; the runner has printed it.
    const outside = failed === 0 && code !== 0 && !isInterrupted ? 1 : 0;
    const total = failed + outside + failedChecks;
    const parts = [`${passed} passed`, `${total} failed`];
    if (skipped > 0) parts.push(`${skipped} skipped`);
    if (flaky.length > 0) {
      parts.push(`${flaky.length} flaky`);
      console.log(['\nPassed at the second attempt only:', ...flaky].join('\n  '));
    }
    if (isInterrupted)
      parts.push(`interrupted by ${signal}: ${files.done} of ${files.total} files are finished`);
    console.log(`\n${parts.join(', ')}`);
    process.exitCode = total > 0 || passed === 0 || isInterrupted ? 1 : 0;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Runs a tool in our Node, which is also first in the PATH of its children. */
function run([script, ...args], { capture, env = {} }) {
  const node = findNode();
  const plain = process.stdout.isTTY ? {} : { NO_COLOR: '1' }; // some tools colour the log of a CI
  const child = spawn(node, [script, ...args], {
    cwd: root,
    env: { ...scriptEnv, ...plain, ...env, PATH: `${dirname(node)}${delimiter}${process.env.PATH}` },
    stdio: capture ? ['ignore', 'pipe', 'pipe'] : ['ignore', 'inherit', 'inherit'],
  });
  // Ctrl-C in a terminal also reaches the tool, and this process must outlive it. SIGTERM only comes here.
  let stoppedBy;
  const remember = (signal) => {
    stoppedBy ??= signal;
  };
  const forward = (signal) => {
    stoppedBy ??= signal;
    child.kill(signal);
  };
  process.on('SIGINT', remember).on('SIGTERM', forward);
  let output = '';
  const append = (chunk) => {
    output += chunk;
  };
  child.stdout?.setEncoding('utf8').on('data', append);
  child.stderr?.setEncoding('utf8').on('data', append);
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => {
      process.off('SIGINT', remember).off('SIGTERM', forward);
      resolve({ code: code ?? signal, signal: stoppedBy, output });
    });
  });
}
