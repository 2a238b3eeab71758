import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    projects: ['server'],
    // Two cores are the least that this has to run on, and every test file has a PostgreSQL and a service to share them with.
    maxWorkers: 2,
  },
});
