import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { startTestService } from '../support/service.ts';

const run = promisify(execFile);
const PROMTOOL = '/usr/bin/promtool';

const file = (path: string) => fileURLToPath(new URL(`../../../deploy/${path}`, import.meta.url));
const dashboard = JSON.parse(readFileSync(file('grafana/belfry.json'), 'utf8')) as {
  panels: { id: number; title: string; type: string; targets?: { expr: string }[] }[];
};
const queries = dashboard.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
const rules = readFileSync(file('prometheus/belfry.rules.yml'), 'utf8');
const ruleTests = readFileSync(file('prometheus/belfry.rules.test.yml'), 'utf8');

/** The metrics of a server, with the series of histograms. */
let exported: Set<string>;
beforeAll(async () => {
  const service = await startTestService();
  const { text } = await service.request('GET', '/metrics');
  await service.stop();
  exported = new Set(
    [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].flatMap(([, name = '', type]) =>
      type === 'histogram' ? [`${name}_bucket`, `${name}_count`, `${name}_sum`] : [name],
    ),
  );
});

const metricsIn = (text: string) =>
  [...text.matchAll(/\b(?:belfry|nodejs|process)_\w+/g)].map(([name]) => name);

test('the dashboard and the alerts use only metrics that exist', () => {
  const used = [...queries.flatMap(metricsIn), ...metricsIn(rules)];
  expect(used.length).toBeGreaterThan(20);
  expect(used.filter((name) => !exported.has(name))).toEqual([]);
});

test('each panel has its own id', () => {
  const ids = dashboard.panels.map(({ id }) => id);
  expect(new Set(ids).size).toBe(ids.length);
});

const alerts = [...rules.matchAll(/- alert: (\w+)/g)].map(([, name]) => name);

test('each alert has a test', () => {
  const tested = new Set([...ruleTests.matchAll(/alertname: (\w+)/g)].map(([, name]) => name));
  expect(alerts.filter((name) => !tested.has(name))).toEqual([]);
});

test('the guide says what to do for each alert', () => {
  const guide = readFileSync(file('../docs/guides/operations.md'), 'utf8');
  const explained = [...guide.matchAll(/^\| `(Belfry\w+)` \| \w/gm)].map(([, name]) => name);
  expect(explained.sort()).toEqual(alerts.sort());
});

describe.skipIf(!existsSync(PROMTOOL))('with promtool', () => {
  test('the alerts are valid and pass their tests', async () => {
    await run(PROMTOOL, ['check', 'rules', file('prometheus/belfry.rules.yml')]);
    await run(PROMTOOL, ['test', 'rules', file('prometheus/belfry.rules.test.yml')]);
  });

  test('the queries of the dashboard are valid', async () => {
    // As rules, because promtool parses no single query without a server.
    const asRules = queries.map((query, at) => ({
      record: `query:${at}`,
      expr: query.replaceAll('$__rate_interval', '5m'),
    }));
    const folder = await mkdtemp(join(tmpdir(), 'belfry-queries-'));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    await writeFile(
      join(folder, 'rules.json'),
      JSON.stringify({ groups: [{ name: 'dashboard', rules: asRules }] }),
    );
    await run(PROMTOOL, ['check', 'rules', join(folder, 'rules.json')]);
  });
});
