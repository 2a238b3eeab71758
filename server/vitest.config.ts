import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    name: 'server',
    include: ['src/**/*.test.ts', 'test/**/*.test.ts'],
    globalSetup: ['test/support/global-setup.ts'],
    // Processes, not threads: tests send signals and look at what their process holds.
    pool: 'forks',
    // Two cores are the least that this has to run on, and every file has a PostgreSQL and a service to share
    // them with. It stands here, not above: a project's own default counts, and on two cores that is one.
    maxWorkers: 2,
    testTimeout: 20_000,
    hookTimeout: 60_000, // a service of its own, with its database, on a busy machine
  },
});
