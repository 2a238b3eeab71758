import { expect, test } from 'vitest';
import { createLogger } from '../lib/log.ts';
import { OutcomeWriter } from './outcome-writer.ts';

test('reports that may have been committed are retries, also when their batch is split', async () => {
  const errors = [Object.assign(new Error('the response was lost'), { code: '08006' }), new Error('a bug')];
  const commits: [names: string[], isRetry: boolean][] = [];
  const writer = new OutcomeWriter<{ name: string }>({
    commit: async (reports, isRetry) => {
      commits.push([reports.map(({ name }) => name), isRetry]);
      const error = errors.shift();
      if (error !== undefined) throw error;
    },
    maxReports: 10,
    log: createLogger({ level: 'silent' }),
    onUnblocked: () => {},
  });
  await Promise.all([writer.report({ name: 'a' }), writer.report({ name: 'b' })]);
  await writer.report({ name: 'c' });
  expect(commits).toEqual([
    [['a', 'b'], false],
    [['a', 'b'], true],
    [['a'], true],
    [['b'], true],
    [['c'], false],
  ]);
});
