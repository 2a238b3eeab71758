import { fileURLToPath } from 'node:url';

/** What runs the sources, as users do. */
export const LAUNCHER = fileURLToPath(new URL('../../../bin/belfry.mjs', import.meta.url));

/**
 * The program as `bundle-program.ts` has written it for this run. Most tests that need a process of the
 * program start this. Tests of how it starts use `LAUNCHER`.
 */
export const BUNDLE = `${process.env.TEST_PROGRAM}/main.mjs`;

/**
 * Options of Node for them: with this young generation from the start on, a start collects garbage less often
 * and takes 343 instead of 368 ms of CPU time.
 */
export const BUNDLE_OPTIONS = ['--min-semi-space-size=16'];

/** The compile cache of the processes that run the bundle. */
export const BUNDLE_CACHE = `${process.env.TEST_PROGRAM}/compile-cache`;
