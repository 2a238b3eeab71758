// npm run docs:build -- <folder> [--base /docs/]: builds the guides and the API reference as static files.
import { join } from 'node:path';
import { ensureInstalled } from './install.mjs';
import { launch, root, runScript } from './runtime.mjs';

await launch(async () => {
  await ensureInstalled({ dev: false });
  await runScript(join(root, 'docs', 'site', 'build', 'main.ts'), process.argv.slice(2));
});
