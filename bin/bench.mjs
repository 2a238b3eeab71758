// npm run bench: installs what the benchmarks need, then runs them.
import { join } from 'node:path';
import { ensureInstalled } from './install.mjs';
import { launch, root, runScript } from './runtime.mjs';

await launch(async () => {
  await ensureInstalled({ dev: true });
  await runScript(join(root, 'bench', 'main.ts'), process.argv.slice(2));
});
