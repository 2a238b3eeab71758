// npm run proof:fuzz: looks for bytes that break a parser, led by the code that they reach.
//   npm run proof:fuzz                          every target, a minute each
//   npm run proof:fuzz -- jwt csv --seconds 600
// The fuzzer is not a dependency: it is installed when it is first used. It needs glibc 2.38 or newer, as in
// Debian 13.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { ensureInstalled } from './install.mjs';
import { findNode, LaunchError, launch, root, scriptEnv } from './runtime.mjs';

const FUZZER = '@jazzer.js/core';
const VERSION = '4.0.0';
// Its exit statuses after a finding: an input took too long, took too much memory, or broke the target.
const FOUND = [70, 71, 77];
const folder = join(root, 'node_modules', '.cache', 'fuzz');

await launch(async () => {
  await ensureInstalled({ dev: true });
  const names = process.argv.slice(2);
  const option = names.indexOf('--seconds');
  const [, seconds = '60'] = option < 0 ? [] : names.splice(option, 2);
  const targets = targetNames();
  const unknown = names.filter((name) => !targets.includes(name));
  if (unknown.length > 0)
    throw new LaunchError(`unknown targets: ${unknown.join(', ')} (there are ${targets.join(', ')})`);
  const cli = installFuzzer();
  const failed = [];
  for (const name of names.length > 0 ? names : targets) {
    console.log(`\n${name}`);
    if (!run(cli, await bundle(name), name, seconds)) failed.push(name);
  }
  console.log(failed.length === 0 ? '\nnothing was found' : `\nfound something: ${failed.join(', ')}`);
  process.exitCode = failed.length === 0 ? 0 : 1;
});

function installFuzzer() {
  const cli = join(folder, 'node_modules', FUZZER, 'dist', 'cli.js');
  mkdirSync(folder, { recursive: true });
  if (!existsSync(cli)) {
    writeFileSync(join(folder, 'package.json'), '{"private":true}');
    const args = ['install', '--ignore-scripts', '--no-audit', '--no-fund', `${FUZZER}@${VERSION}`];
    const { status } = spawnSync('npm', args, { cwd: folder, stdio: 'inherit' });
    if (status !== 0) throw new LaunchError('the fuzzer could not be installed');
  }
  return cli;
}

/** Read by a Node that runs TypeScript, which this one may be too old for. */
function targetNames() {
  const script = "import { TARGETS } from './targets.ts'; console.log(JSON.stringify(Object.keys(TARGETS)));";
  const { status, stdout, stderr } = spawnSync(findNode(), ['--input-type=module', '--eval', script], {
    cwd: join(root, 'server', 'test', 'fuzz'),
    env: scriptEnv,
    encoding: 'utf8',
  });
  if (status !== 0) throw new LaunchError(`the targets could not be read\n${stderr}`);
  return JSON.parse(stdout);
}

/** The target with all its modules as one script, because the fuzzer only instruments those. */
async function bundle(name) {
  const { build } = createRequire(join(root, 'server', 'package.json'))('esbuild');
  const outfile = join(folder, `${name}.cjs`);
  const target = `TARGETS[${JSON.stringify(name)}]`;
  await build({
    stdin: {
      contents: `import { TARGETS } from './targets.ts'; export const fuzz = ${target};`,
      resolveDir: join(root, 'server', 'test', 'fuzz'),
    },
    bundle: true,
    platform: 'node',
    format: 'cjs',
    outfile,
    define: { 'import.meta.url': 'moduleUrl' },
    banner: { js: "const moduleUrl = require('node:url').pathToFileURL(__filename).href;" },
    logLevel: 'error',
  });
  return outfile;
}

/** What it finds is kept in the folder of the target, and is where the next run begins. */
function run(cli, script, name, seconds) {
  const corpus = join(folder, `${name}-corpus`);
  mkdirSync(corpus, { recursive: true });
  const limits = [`-max_total_time=${seconds}`, '-max_len=2048', '-timeout=20', '-print_final_stats=1'];
  // By default it instruments nothing below node_modules.
  const instrumented = ['--includes', `${name}.cjs`, '--excludes', 'nothing'];
  const args = [cli, script, corpus, ...instrumented, '--', ...limits];
  const { status } = spawnSync(findNode(), args, { cwd: folder, stdio: 'inherit' });
  if (status !== 0 && !FOUND.includes(status))
    throw new LaunchError(`the fuzzer ended with status ${status}`);
  return status === 0;
}
