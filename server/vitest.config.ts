import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    name: 'server',
    include: ['src/**/*.test.ts', 'test/**/*.test.ts'],
    globalSetup: ['test/support/global-setup.ts'],
    // Processes, not threads: tests send signals and look at what their process holds.
    pool: 'forks',
    testTimeout: 20_000,
    hookTimeout: 60_000, // a service of its own, with its database, on a busy machine
  },
});
