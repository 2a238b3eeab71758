import { execFile } from 'node:child_process';
import { copyFile, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';

const root = fileURLToPath(new URL('../../../', import.meta.url));

/** Files that break a rule, with their imports and the rule. */
const FORBIDDEN = [
  [
    'server/src/lib/upward.ts',
    "import type { D } from '../domain/fine.ts'; export type L = D;",
    'import-rule-lib',
  ],
  ['server/src/contract/upward.ts', "export * from '../db/fine.ts';", 'import-rule-contract'],
  ['server/src/providers/upward.ts', "import '../db/fine.ts';", 'import-rule-providers'],
  ['server/src/providers/shapes.ts', "import '../contract/fine.ts';", 'providers-stand-below-the-contract'],
  ['server/src/queue/upward.ts', "import '../providers/fine.ts';", 'import-rule-queue'],
  ['server/src/db/settings.ts', "import '../config.ts';", 'import-rule-db'],
  ['server/src/config.ts', "import './contract/fine.ts';", 'import-rule-config'],
  ['server/src/domain/upward.ts', "import '../http/fine.ts';", 'import-rule-domain'],
  ['server/src/http/upward.ts', "import '../app.ts';", 'import-rule-http'],
  ['server/src/app.ts', "import './cli/fine.ts';", 'import-rule-app'],
  ['server/src/cli/upward.ts', "import '../main.ts';", 'import-rule-cli'],
  ['server/src/domain/ground/high/upward.ts', "import '../../setup/low/fine.ts';", 'layer-ground'],
  ['server/src/domain/setup/high/upward.ts', "import '../../people/low/fine.ts';", 'layer-setup'],
  ['server/src/domain/people/high/upward.ts', "import '../../line/low/fine.ts';", 'layer-people'],
  ['server/src/domain/line/high/upward.ts', "import '../../after/low/fine.ts';", 'layer-line'],
  ['server/src/domain/cellar/anything.ts', "import '../fine.ts';", 'known-layers-only'],
  ['server/src/http/v1/sideways.ts', "import '../v2/fine.ts';", 'v1-is-a-translator-of-its-own'],
  ['server/src/helpers/anything.ts', "import '../lib/fine.ts';", 'known-parts-only'],
  ['server/src/domain/web.ts', "import 'fastify';", 'only-http-imports-the-web-framework'],
  ['server/src/app/plugin.ts', "import '@fastify/cors';", 'only-http-imports-the-web-framework'],
  ['server/src/providers/rows.ts', "import 'pg';", 'no-database-driver-here'],
  ['server/src/http/vendor.ts', "import '../providers/acme/part.ts';", 'a-provider-is-used-by-its-object'],
  ['server/src/main.ts', "import './app.ts'; import '../test/fine.ts';", 'no-tests-in-the-product'],
  ['server/src/lib/tool.ts', "import 'vitest';", 'no-development-tools-in-the-product'],
  ['server/src/lib/there.ts', "import './back.ts';", 'no-cycles'],
  ['server/src/lib/gone.ts', "import './nowhere.ts';", 'no-missing-files'],
  ['dashboard/src/page.ts', "import '../../server/src/lib/fine.ts';", 'the-pages-know-the-sdk-only'],
  ['sdk/src/client.ts', "import '../../server/src/contract/fine.ts';", 'the-sdk-stands-alone'],
] as const;

/** Files that break no rule. */
const PERMITTED = {
  'server/src/domain/people/users/fine.ts': "import '../topics/fine.ts';",
  'server/src/domain/people/users/other.ts': 'export {};',
  'server/src/domain/people/topics/fine.ts': 'export {};',
  'server/src/domain/people/topics/back.ts': "import '../users/other.ts';",
  'server/src/lib/fine.ts': 'export {};',
  'server/src/lib/back.ts': "import './there.ts';",
  'server/src/contract/common.ts': "import '../lib/fine.ts';",
  'server/src/contract/fine.ts': "import '../providers/fine.ts';",
  'server/src/providers/fine.ts': "import '../contract/common.ts';",
  'server/src/db/fine.ts': "import 'pg';",
  'server/src/providers/acme/part.ts': 'export {};',
  'server/src/queue/fine.ts': "import '../db/fine.ts';",
  'server/src/domain/fine.ts': "import '../queue/fine.ts'; import '../config.ts'; export type D = 1;",
  'server/src/domain/ground/low/fine.ts': 'export {};',
  'server/src/domain/setup/low/fine.ts': "import '../../ground/low/fine.ts';",
  'server/src/domain/people/low/fine.ts': "import '../../setup/low/fine.ts';",
  'server/src/domain/line/low/fine.ts': "import '../../people/low/fine.ts';",
  'server/src/domain/after/low/fine.ts': "import '../../line/low/fine.ts';",
  'server/src/http/fine.ts': "import 'fastify'; import '../domain/fine.ts';",
  'server/src/http/v2/fine.ts': "import '../fine.ts';",
  'server/src/cli/fine.ts': "import '../http/fine.ts'; import 'commander';",
  'server/node_modules/commander/index.js': '',
  'server/test/fine.ts': "import '../src/app.ts'; import 'vitest';",
  'inbox/src/fine.ts': "import '../../sdk/src/client.ts';",
};

let tree: string;
beforeAll(async () => {
  tree = await mkdtemp(join(tmpdir(), 'belfry-import-rule-'));
  for (const file of ['.dependency-cruiser.cjs', '.dependency-cruiser.folders.cjs'])
    await copyFile(join(root, file), join(tree, file));
  await copyFile(join(root, 'tsconfig.json'), join(tree, 'tsconfig.json'));
  await writeFile(
    join(tree, 'package.json'),
    JSON.stringify({ dependencies: { pg: '1' }, devDependencies: { vitest: '1' } }),
  );
  const packages = ['fastify', '@fastify/cors', 'pg', 'vitest'].map(
    (name) => [`node_modules/${name}/index.js`, ''] as const,
  );
  for (const [file, text] of [...FORBIDDEN, ...Object.entries(PERMITTED), ...packages]) {
    await mkdir(dirname(join(tree, file)), { recursive: true });
    await writeFile(join(tree, file), text);
  }
});
afterAll(() => rm(tree, { recursive: true, force: true }));

interface Report {
  summary: { violations: { from: string; rule: { name: string } }[] };
}

test('exactly the imports against the rule are reported, type-only ones too', async () => {
  const { summary } = await cruise('server', 'sdk', 'dashboard', 'inbox');
  // A cycle is reported for either of its files.
  const found = summary.violations.map(
    ({ from, rule }) => `${from.replace('lib/back', 'lib/there')}: ${rule.name}`,
  );
  expect(found.toSorted()).toEqual(FORBIDDEN.map(([file, , rule]) => `${file}: ${rule}`).toSorted());
});

test('two folders of domain that import each other are reported, even without a cycle of files', async () => {
  const { summary } = await cruise('--config', '.dependency-cruiser.folders.cjs', 'server/src/domain');
  expect(summary.violations.map(({ from }) => from).toSorted()).toEqual([
    'server/src/domain/people/topics',
    'server/src/domain/people/users',
  ]);
});

async function cruise(...what: string[]): Promise<Report> {
  const tool = join(root, 'node_modules/dependency-cruiser/bin/dependency-cruiser.mjs');
  const args = [tool, '--output-type', 'json', ...what];
  const { promise, resolve, reject } = Promise.withResolvers<Report>();
  // Its exit code is a failure because of the violations; the test reads its output.
  execFile(process.execPath, args, { cwd: tree, maxBuffer: 50_000_000 }, (error, stdout, stderr) => {
    if (stdout === '') reject(new Error(stderr, { cause: error }));
    else resolve(JSON.parse(stdout));
  });
  return promise;
}
