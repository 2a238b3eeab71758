import { fileURLToPath } from 'node:url';

/** The compile cache of the launcher. Without it, every process compiles the TypeScript of the server. */
export const NODE_COMPILE_CACHE = fileURLToPath(
  new URL('../../../node_modules/.cache/belfry', import.meta.url),
);
