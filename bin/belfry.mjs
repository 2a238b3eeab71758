#!/usr/bin/env node
// The launcher. It runs in any Node from 20 on, finds a Node that runs the server, and becomes
// server/src/main.ts. In a clone it first installs the dependencies. In the published package, where npm has
// installed them, the server is JavaScript.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { launch, root, runScript } from './runtime.mjs';

await launch(async () => {
  const [source, built] = ['main.ts', 'main.js'].map((file) => join(root, 'server', 'src', file));
  const isPackage = existsSync(built);
  if (!isPackage) {
    const { ensureInstalled } = await import('./install.mjs');
    await ensureInstalled({ dev: process.argv[2] === 'generate' });
  }
  await runScript(isPackage ? built : source, process.argv.slice(2));
});
