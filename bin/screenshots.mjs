// npm run screenshots: installs what it needs, then makes the pictures in docs/images.
import { join } from 'node:path';
import { ensureDebianPackages, FOR_PICTURES } from './debian-packages.mjs';
import { ensureInstalled } from './install.mjs';
import { launch, root, runScript } from './runtime.mjs';

await launch(async () => {
  await ensureInstalled({ dev: true });
  ensureDebianPackages(FOR_PICTURES);
  await runScript(join(root, 'bench', 'screenshots.ts'), process.argv.slice(2));
});
