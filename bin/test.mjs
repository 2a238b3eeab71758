// npm test: what CI runs. Installs what the tests need, checks the code without running it, then runs the tests.
//   npm test                    everything
//   npm test -- broadcasts      only the test files whose path contains this
//   npm run lint                only the checks
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { ensureInstalled } from './install.mjs';
import { findNode, Refusal, root } from './runtime.mjs';

const CHECKS = [
  [
    'format and lint',
    'node_modules/@biomejs/biome/bin/biome',
    'ci',
    '--error-on-warnings',
    '--colors=off',
    '.',
  ],
  ['types', 'node_modules/typescript/bin/tsc', '-p', 'tsconfig.json'],
  [
    'import rule',
    'node_modules/dependency-cruiser/bin/dependency-cruiser.mjs',
    '{server,bench,examples,sdk,dashboard,inbox}/**/*.{ts,tsx}',
  ],
  ['unused code', 'node_modules/knip/bin/knip.js', '--no-progress'],
  ['licences', 'bin/licences.mjs'],
  ['links', 'bin/links.mjs'],
  ['generated files', 'server/src/main.ts', 'generate', '--check'],
];
const AT_ONCE = 2; // each of them is a program of one or two threads

try {
  await ensureInstalled({ dev: true });
  const filters = process.argv.slice(2);
  const lintOnly = filters[0] === '--lint';
  const broken = filters.length === 0 || lintOnly ? await runChecks() : 0;
  if (lintOnly) process.exitCode = broken > 0 ? 1 : 0;
  else await runTests(filters, broken);
} catch (error) {
  if (!(error instanceof Refusal)) throw error;
  console.error(`belfry: ${error.message}`);
  process.exitCode = 1;
}

/** Runs all checks, prints what the failing ones said, answers how many failed. */
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

/** Runs the tests and ends with one line that counts them; a check that failed counts as a failed test. */
async function runTests(filters, brokenChecks) {
  const folder = mkdtempSync(join(tmpdir(), 'belfry-test-'));
  try {
    const report = join(folder, 'report.json');
    const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${report}`];
    const { code } = await run(['node_modules/vitest/vitest.mjs', 'run', ...reporters, ...filters], {
      capture: false,
    });
    const { passed, failed, skipped } = count(report, code);
    const total = failed + brokenChecks;
    console.log(`\n${passed} passed, ${total} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`);
    process.exitCode = total > 0 || passed === 0 ? 1 : 0;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function count(reportFile, code) {
  let report;
  try {
    report = JSON.parse(readFileSync(reportFile, 'utf8'));
  } catch {
    return { passed: 0, failed: 1, skipped: 0 }; // the runner fell over, and has said why
  }
  // A file that cannot be loaded has no tests to fail.
  const unloadable = report.testResults.filter(
    (file) => file.status === 'failed' && !file.assertionResults.some((test) => test.status === 'failed'),
  );
  const failed = report.numFailedTests + unloadable.length;
  return {
    passed: report.numPassedTests,
    failed: failed === 0 && code !== 0 ? 1 : failed, // an error outside of every test
    skipped: report.numPendingTests + report.numTodoTests,
  };
}

/** Runs one of the tools with our Node, which everything that it starts finds first, too. */
function run([script, ...args], { capture }) {
  const node = findNode();
  const plain = process.stdout.isTTY ? {} : { NO_COLOR: '1' }; // some of the tools colour the log of a CI
  const child = spawn(node, [script, ...args], {
    cwd: root,
    env: { ...process.env, ...plain, PATH: `${dirname(node)}${delimiter}${process.env.PATH}` },
    stdio: capture ? ['ignore', 'pipe', 'pipe'] : ['ignore', 'inherit', 'inherit'],
  });
  // A terminal's Ctrl-C reaches the tool by itself, and this process has to outlive it; SIGTERM comes here alone.
  const outlive = () => {};
  const forward = (signal) => child.kill(signal);
  process.on('SIGINT', outlive).on('SIGTERM', forward);
  let output = '';
  const append = (chunk) => {
    output += chunk;
  };
  child.stdout?.setEncoding('utf8').on('data', append);
  child.stderr?.setEncoding('utf8').on('data', append);
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => {
      process.off('SIGINT', outlive).off('SIGTERM', forward);
      resolve({ code: code ?? signal, output });
    });
  });
}
