import { expect, test } from 'vitest';
import { PROJECT_HAS_LEFT } from '../db/client.ts';
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

test('a report of a project that has moved to another cell holds up no others', async () => {
  const error = Object.assign(new Error('moved'), { code: '55000', constraint: PROJECT_HAS_LEFT });
  const written: string[] = [];
  const writer = new OutcomeWriter<{ name: string }>({
    commit: async (reports) => {
      if (reports.some(({ name }) => name === 'moved')) throw error;
      written.push(...reports.map(({ name }) => name));
    },
    maxReports: 10,
    log: createLogger({ level: 'silent' }),
    onUnblocked: () => {},
  });
  const reports = ['stays', 'moved', 'stays too'].map((name) => writer.report({ name }));
  expect(await Promise.allSettled(reports)).toMatchObject([
    { status: 'fulfilled' },
    { status: 'rejected', reason: error },
    { status: 'fulfilled' },
  ]);
  expect(written).toEqual(['stays', 'stays too']);
});
