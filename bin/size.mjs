// npm run size: what the packages for browsers cost a page, minified by esbuild.
import { basename } from 'node:path';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';
import { root } from './runtime.mjs';

/** The name of each row with the code of its page. */
const PAGES = {
  'element and store (/element)': `import '@belfry/inbox/element';`,
  'store (@belfry/inbox)': `export { createInbox } from '@belfry/inbox';`,
  'React hooks and the store (/react)': `export * from '@belfry/inbox/react';`,
  'Vue composables and the store (/vue)': `export * from '@belfry/inbox/vue';`,
  'web push (/web-push)': `export * from '@belfry/inbox/web-push';`,
  'web push button (/web-push/element)': `import '@belfry/inbox/web-push/element';`,
  'service worker (/service-worker.js)': `import '@belfry/inbox/service-worker.js';`,
  'SDK, user client (@belfry/sdk)': `export { UserClient } from '@belfry/sdk';`,
  'SDK, whole (@belfry/sdk)': `export * from '@belfry/sdk';`,
};

console.log('                                        gzip   minified   later (gzip)');
for (const [name, contents] of Object.entries(PAGES)) {
  const { first, later, minified } = await measure(contents);
  const row = [name.padEnd(36), kb(first).padStart(7), kb(minified).padStart(10), kb(later).padStart(12)];
  console.log(row.join(' '));
}

/** Bundles a page, and returns the bytes that it loads at first, and those that it may load later. */
async function measure(contents) {
  const { outputFiles, metafile } = await build({
    stdin: { contents, resolveDir: root, sourcefile: 'page.ts' },
    absWorkingDir: root,
    bundle: true,
    minify: true,
    splitting: true,
    format: 'esm',
    target: 'es2022',
    outdir: '/out',
    write: false,
    metafile: true,
    external: ['react', 'vue'],
  });
  const atOnce = new Set();
  const follow = (path) => {
    if (atOnce.has(path)) return;
    atOnce.add(path);
    for (const { path: next, kind, external } of metafile.outputs[path].imports)
      if (kind === 'import-statement' && !external) follow(next);
  };
  const names = Object.keys(metafile.outputs);
  follow(names.find((path) => metafile.outputs[path].entryPoint === 'page.ts'));
  const sizes = { first: 0, later: 0, minified: 0 };
  for (const { path, contents: bytes } of outputFiles) {
    const isFirst = atOnce.has(names.find((name) => basename(name) === basename(path)));
    sizes[isFirst ? 'first' : 'later'] += gzipSync(bytes).length;
    if (isFirst) sizes.minified += bytes.length;
  }
  return sizes;
}

function kb(bytes) {
  return `${(bytes / 1000).toFixed(1)} kB`;
}
