// npm run bench: installs what the measurements need, then runs them in our Node.
import { join } from 'node:path';
import { ensureInstalled } from './install.mjs';
import { Refusal, root, runScript } from './runtime.mjs';

try {
  await ensureInstalled({ dev: true });
  await runScript(join(root, 'bench', 'main.ts'), process.argv.slice(2));
} catch (error) {
  if (!(error instanceof Refusal)) throw error;
  console.error(`belfry: ${error.message}`);
  process.exitCode = 1;
}
