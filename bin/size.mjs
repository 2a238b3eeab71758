// npm run size [-- <folder>]: what the packages for browsers cost a page, bundled as by Vite. It builds the
// packages, or takes those that are installed in the folder. Fails if the element is larger than its limit.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { gzipSync } from 'node:zlib';
import { rolldown } from 'rolldown';
import { buildPackage } from './build-package.mjs';

const ELEMENT = 'element and store (/element)';
const MAX_ELEMENT_BYTES = 20_000;

/** The name of each row with the code of its page. */
const PAGES = {
  [ELEMENT]: `import '@belfry/inbox/element';`,
  'store (@belfry/inbox)': `export { createInbox } from '@belfry/inbox';`,
  'React hooks and the store (/react)': `export * from '@belfry/inbox/react';`,
  'Vue composables and the store (/vue)': `export * from '@belfry/inbox/vue';`,
  'web push (/web-push)': `export * from '@belfry/inbox/web-push';`,
  'web push button (/web-push/element)': `import '@belfry/inbox/web-push/element';`,
  'service worker (/service-worker.js)': `import '@belfry/inbox/service-worker.js';`,
  'SDK, user client (@belfry/sdk)': `export { UserClient } from '@belfry/sdk';`,
  'SDK, whole (@belfry/sdk)': `export * from '@belfry/sdk';`,
};

const [installed] = process.argv.slice(2);
const folder = installed === undefined ? mkdtempSync(join(tmpdir(), 'belfry-size-')) : resolve(installed);
try {
  const packages = join(folder, 'node_modules/@belfry');
  if (installed === undefined) for (const name of ['sdk', 'inbox']) buildPackage(name, join(packages, name));
  console.log('                                        gzip   minified   later (gzip)');
  for (const [name, code] of Object.entries(PAGES)) {
    const { first, later, minified } = await measure(code);
    const row = [name.padEnd(36), kb(first).padStart(7), kb(minified).padStart(10), kb(later).padStart(12)];
    console.log(row.join(' '));
    if (name !== ELEMENT || first <= MAX_ELEMENT_BYTES) continue;
    console.error(`The element has ${first} bytes; the limit is ${MAX_ELEMENT_BYTES}.`);
    process.exitCode = 1;
  }
} finally {
  if (installed === undefined) rmSync(folder, { recursive: true, force: true });
}

/** Bundles a page, and returns the bytes that it loads at first, and those that it may load later. */
async function measure(code) {
  const page = join(folder, 'page.js');
  const bundle = await rolldown({
    input: page,
    external: ['react', 'vue'],
    transform: { target: 'es2022' },
    plugins: [
      {
        name: 'page',
        resolveId: (id) => (id === page ? id : undefined),
        load: (id) => (id === page ? code : undefined),
      },
    ],
  });
  const { output } = await bundle.generate({ format: 'esm', minify: true });
  const chunks = new Map(output.map((chunk) => [chunk.fileName, chunk]));
  const atOnce = new Set();
  const follow = (name) => {
    if (atOnce.has(name)) return;
    atOnce.add(name);
    for (const next of chunks.get(name)?.imports ?? []) follow(next);
  };
  for (const { isEntry, fileName } of output) if (isEntry) follow(fileName);
  const sizes = { first: 0, later: 0, minified: 0 };
  for (const [name, { code: text }] of chunks) {
    const isFirst = atOnce.has(name);
    sizes[isFirst ? 'first' : 'later'] += gzipSync(text).length;
    if (isFirst) sizes.minified += Buffer.byteLength(text);
  }
  return sizes;
}

function kb(bytes) {
  return `${(bytes / 1000).toFixed(1)} kB`;
}
