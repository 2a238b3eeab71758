import { readFile, symlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build, type Plugin } from 'esbuild';

const ROOT = fileURLToPath(new URL('../../../', import.meta.url));

/**
 * Writes the program to a folder as `main.mjs` and the modules that it loads on demand. A start takes 430
 * instead of 680 ms of CPU time, because it loads 34 files instead of 1,577, and a run has hundreds.
 */
export async function bundleProgram(folder: string): Promise<void> {
  await build({
    entryPoints: [join(ROOT, 'server/src/main.ts')],
    outdir: folder,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    conditions: [], // those of Node, without those for bundlers
    external: ['pg-native'],
    // For the CommonJS packages in the bundle, which require modules of Node.
    banner: {
      js: "import { createRequire as from } from 'node:module'; const require = from(import.meta.url);",
    },
    plugins: [packagesOnDemand, ownPaths],
    logLevel: 'silent', // errors are thrown
  });
  await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
}

/** Leaves the packages that are imported on demand to Node: in a bundle, CommonJS has other exports there. */
const packagesOnDemand: Plugin = {
  name: 'packages on demand',
  setup({ onResolve }) {
    onResolve({ filter: /^[^./]/ }, ({ path, kind }) =>
      kind === 'dynamic-import' ? { path, external: true } : undefined,
    );
  },
};

/** Lets each module find the files beside its source. */
const ownPaths: Plugin = {
  name: 'own paths',
  setup({ onLoad }) {
    onLoad({ filter: /\.(?:[cm]?js|ts)$/ }, async ({ path }) => {
      const source = await readFile(path, 'utf8');
      if (!/import\.meta\.url|__dirname/.test(source)) return undefined;
      return {
        contents: source
          .replaceAll('import.meta.url', JSON.stringify(pathToFileURL(path).href))
          .replaceAll('__dirname', JSON.stringify(dirname(path))),
        loader: path.endsWith('.ts') ? 'ts' : 'js',
      };
    });
  },
};
