import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { readConfig, SETTINGS } from '../../src/config.ts';

// Docker itself is not run.

const read = (path: string) => readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8');
const { services, configs, volumes } = parse(read('compose.yaml'));
const example = read('deploy/compose.env');

/** The variables of the example, with the lines that are commented out or without them. */
function variables(withAll: boolean): Record<string, string> {
  const found: Record<string, string> = {};
  const lines = withAll ? example.replaceAll(/^# (?=[A-Z_]+=)/gm, '') : example;
  for (const [, name = '', text = ''] of lines.matchAll(/^([A-Z_]+)=(.*)$/gm))
    found[name] = name.endsWith('KEY') ? 'a'.repeat(64) : filled(text || 'chosen', found);
  return found;
}

/** Replaces `${NAME}`, `${NAME:-default}` and `${NAME:?message}`, as Compose does. */
function filled(text: string, given: Record<string, string>): string {
  const inner = /\$\{(\w+)(?::([-?])((?:[^${}]|\$\{\w+\})*))?\}/;
  for (let match = inner.exec(text); match !== null; match = inner.exec(text)) {
    const [all, name = '', mark, rest = ''] = match;
    const value = given[name] || (mark === '-' ? filled(rest, given) : undefined);
    if (value === undefined) throw new Error(`${name} has no value`);
    text = text.replace(all, () => value);
  }
  return text;
}

/** The settings that Belfry starts with. */
function settingsWith(given: Record<string, string>): Record<string, string> {
  const environment: Record<string, string> = services.belfry.environment;
  return Object.fromEntries(Object.entries(environment).map(([name, text]) => [name, filled(text, given)]));
}

test('Belfry gets valid settings, and by default the database of the same file', () => {
  const { PUBLIC_URL: _address, ...given } = variables(false);
  const settings = settingsWith(given);
  expect(Object.keys(settings).filter((name) => !(name in SETTINGS))).toEqual([]);
  expect(readConfig(settings)).toMatchObject({
    DATABASE_URL: 'postgres://belfry:chosen@postgres:5432/belfry',
    DATABASE_DIRECT_URL: undefined,
  });
});

test('with the profile of the pooler, only what needs a session goes to the database itself', () => {
  const { PUBLIC_URL: _address, ...given } = variables(true);
  expect(given.COMPOSE_PROFILES).toBe(services.pgbouncer.profiles[0]);
  expect(readConfig(settingsWith(given))).toMatchObject({
    DATABASE_URL: 'postgres://belfry:chosen@pgbouncer:6432/belfry',
    DATABASE_DIRECT_URL: 'postgres://belfry:chosen@postgres:5432/belfry',
  });
  expect(services.belfry.depends_on.pgbouncer.required).toBe(false);
});

test('with the profile of NATS, Belfry connects to its service', () => {
  const { PUBLIC_URL: _address, ...given } = variables(true);
  expect(readConfig(settingsWith(given)).NATS_URL).toEqual({ servers: ['nats:4222'], tls: false });
  expect(services.nats.profiles).toEqual(['nats']);
});

test('the pooler has the settings of the guide', () => {
  const ini = /^```ini\n(.*?)^```$/ms.exec(read('docs/guides/operations.md'))?.[1];
  const { content } = configs['pgbouncer.ini'];
  expect(content).toBe(ini?.replace('host=10.0.0.5', 'host=postgres').replace('127.0.0.1', '*'));
  expect(filled(configs['userlist.txt'].content, variables(false))).toBe('"belfry" "chosen"\n');
});

test('every service names services, volumes and configs of the file', () => {
  // biome-ignore lint/suspicious/noExplicitAny: a test reads what it expects, and fails if it is missing
  for (const service of Object.values<any>(services)) {
    for (const name of Object.keys(service.depends_on ?? {})) expect(services).toHaveProperty(name);
    for (const mount of service.volumes ?? []) expect(volumes).toHaveProperty(mount.split(':')[0]);
    for (const { source } of service.configs ?? []) expect(configs).toHaveProperty([source]);
  }
});
