#!/usr/bin/env node
// The launcher. It runs in any Node from 20 on, before anything is installed: it installs the dependencies,
// finds a Node that runs TypeScript, and becomes server/src/main.ts.
import { join } from 'node:path';
import { ensureInstalled } from './install.mjs';
import { launch, root, runScript } from './runtime.mjs';

await launch(async () => {
  await ensureInstalled({ dev: process.argv[2] === 'generate' });
  await runScript(join(root, 'server', 'src', 'main.ts'), process.argv.slice(2));
});
