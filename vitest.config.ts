import { createRequire } from 'node:module';
import { defineConfig } from 'vitest/config';
import { LongestFirst } from './server/test/support/longest-first.ts';
import { PATIENCE_MS } from './server/test/support/patience.ts';

const common = {
  root: 'server',
  // Processes, not threads: tests send signals and measure their process.
  pool: 'forks' as const,
  // Tests wait for other processes: with three on two cores, a sixth of the time was idle. A run took 560 s
  // with four, and 624 s with three. Projects ignore the value of the root, and their default is one on two
  // cores.
  maxWorkers: 4,
  // A test may wait for two things that each take as long as it can be.
  testTimeout: 2.5 * PATIENCE_MS,
  hookTimeout: 2.5 * PATIENCE_MS,
  expect: { poll: { timeout: PATIENCE_MS } },
  // A CI machine that stalls for seconds fails one test of thousands. The closing line counts such a test as
  // flaky, and names what failed at the first attempt: it is still a fault to repair.
  retry: process.env.CI ? 1 : 0,
};

// What Node resolves. Vite takes the ES module for bundlers, so that the package would exist twice.
const resolve = {
  alias: [{ find: /^graphql$/, replacement: createRequire(import.meta.url).resolve('graphql') }],
};

// Tests that change or measure their process: its clock, its memory, its CPU time, the environment that a
// package reads once, the named statements of its modules.
const ALONE = [
  'src/domain/line/rendering/email.test.ts',
  'src/domain/line/rendering/tracked.test.ts',
  'src/lib/expression.test.ts',
  'src/lib/log.test.ts',
  'src/lib/template.test.ts',
  'src/providers/expo/*.test.ts',
  'src/providers/slack/mrkdwn.test.ts',
  'test/database/backup-memory.test.ts',
  'test/database/bus-statements.test.ts',
  'test/database/lock-order.test.ts',
  'test/database/sql-rules.test.ts',
  'test/deliveries/node-clock.test.ts',
  'test/inbox/realtime.test.ts',
  'test/query-plans/long-lists.test.ts',
  'test/query-plans/vacuumed.test.ts',
];

export default defineConfig({
  test: {
    globalSetup: ['server/test/support/global-setup.ts'],
    sequence: { sequencer: LongestFirst },
    projects: [
      // The groups run one after the other: a process is shared only with the next file in the queue.
      { resolve, test: { ...common, name: 'alone', include: ALONE, sequence: { groupOrder: 1 } } },
      {
        resolve,
        test: {
          ...common,
          name: 'server',
          include: ['{src,test}/**/*.test.ts'],
          exclude: ALONE,
          // Files share a process, which compiles and warms up the server once instead of for each of them.
          isolate: false,
          setupFiles: ['test/support/reset-ids.ts'],
          sequence: { groupOrder: 0 },
        },
      },
      {
        resolve,
        test: {
          ...common,
          name: 'inbox',
          root: 'inbox',
          include: ['test/**/*.test.ts'],
          isolate: false,
          setupFiles: ['../server/test/support/reset-ids.ts'],
          sequence: { groupOrder: 0 },
        },
      },
    ],
  },
});
