#!/usr/bin/env node
// The launcher: works with any Node from 20 on and with nothing installed. It installs what is missing, finds
// a Node that runs TypeScript, and becomes server/src/main.ts.
import { join } from 'node:path';
import { ensureInstalled } from './install.mjs';
import { Refusal, root, runScript } from './runtime.mjs';

try {
  await ensureInstalled({ dev: false });
  await runScript(join(root, 'server', 'src', 'main.ts'), process.argv.slice(2));
} catch (error) {
  if (!(error instanceof Refusal)) throw error;
  console.error(`belfry: ${error.message}`);
  process.exitCode = 1;
}
