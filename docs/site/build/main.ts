import { parseArgs } from 'node:util';
import { buildSite } from './build-site.ts';

// npm run docs:build -- <folder> [--base /docs/]: writes the guides and the API reference as static files.
// `base` is the path under which they are served. A server builds its own site with --served.
const {
  positionals: [folder, ...others],
  values: { base, served },
} = parseArgs({
  allowPositionals: true,
  options: {
    base: { type: 'string', default: '/docs/' },
    served: { type: 'boolean', default: false },
  },
});
if (folder !== undefined && others.length === 0) await buildSite({ output: folder, base, served });
else {
  console.error('Name one folder: npm run docs:build -- <folder> [--base /docs/]');
  process.exitCode = 1;
}
