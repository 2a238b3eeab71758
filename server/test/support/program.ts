import { fileURLToPath } from 'node:url';

/** What runs the sources, as users do. */
export const LAUNCHER = fileURLToPath(new URL('../../../bin/belfry.mjs', import.meta.url));

/**
 * The program as `bundle-program.ts` has written it for this run. Most tests that need a process of the
 * program start this. Tests of how it starts use `LAUNCHER`.
 */
export const BUNDLE = `${process.env.TEST_PROGRAM}/main.mjs`;

/** The compile cache of the processes that run the bundle. */
export const BUNDLE_CACHE = `${process.env.TEST_PROGRAM}/compile-cache`;
