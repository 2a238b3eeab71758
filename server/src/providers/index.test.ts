import { readdirSync, readFileSync } from 'node:fs';
import { Ajv } from 'ajv';
import addFormats from 'ajv-formats';
import { describe, expect, test } from 'vitest';
import { integrationConfigs as EXAMPLES } from '../../test/support/integration-configs.ts';
import { delivering, integrations, wireNameOf } from './index.ts';
import { maskSecrets } from './provider.ts';

const ajv = addFormats.default(new Ajv({ allErrors: true, strict: true, keywords: ['x-problem'] }));

test('all delivering providers run through the table of faults', () => {
  const folder = new URL('./', import.meta.url);
  const tests = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) =>
    name.endsWith('.test.ts'),
  );
  const declared = tests.flatMap((name) => {
    const text = readFileSync(new URL(name, folder), 'utf8');
    return [...text.matchAll(/^conforms\(\s*'(\w+)'/gm)].map(([, provider]) => provider);
  });
  const covered = [...new Set([...declared, 'smtp'])]; // smtp/faults.test.ts
  expect(covered.sort()).toEqual([...delivering.keys()].sort());
});

test('every guide lists a success, a retry and a rejection, and describes its override', async () => {
  for (const [name, { classify, guide: load, overrideKey }] of delivering) {
    const { guide } = await load();
    const kinds = guide.responses.map(([, reply]) => classify(reply as never).kind);
    expect(kinds, name).toEqual(expect.arrayContaining(['sent', 'retry', 'rejected']));
    expect(guide.override !== undefined, name).toBe(overrideKey !== undefined);
  }
});

describe.each(Object.entries(integrations))('%s', (name, integration) => {
  const validate = ajv.compile(integration.config);
  const { minimal, full } = EXAMPLES[name as keyof typeof integrations];

  test('is listed by its own name and says where its documentation is', () => {
    expect(integration.name).toBe(name);
    expect(URL.canParse(integration.docs)).toBe(true);
  });

  test('accepts the smallest and the largest config', () => {
    expect(validate(minimal), JSON.stringify(validate.errors)).toBe(true);
    expect(validate(full), JSON.stringify(validate.errors)).toBe(true);
  });

  test('has a valid example', () => {
    const { examples = [] } = integration.config as { examples?: unknown[] };
    expect(examples.length + (name === 'inbox' ? 1 : 0)).toBeGreaterThan(0);
    for (const example of examples) expect(validate(example), JSON.stringify(validate.errors)).toBe(true);
  });

  test('rejects unknown members by name', () => {
    expect(validate({ ...full, surprise: 1 })).toBe(false);
    expect(validate.errors).toMatchObject([
      { keyword: 'additionalProperties', params: { additionalProperty: 'surprise' } },
    ]);
  });

  test('explains every field', () => {
    expect(unexplained(integration.config)).toEqual([]);
  });
});

test.each([
  ['host', { host: 1 }],
  ['port', { port: 0 }],
  ['port', { port: 65536 }],
  ['port', { port: 1.5 }],
  ['from', { from: { email: 'none' } }],
  ['from', { from: { name: 'A' } }],
  ['reply_to', { reply_to: null }],
  ['security', { security: 'tls' }],
])('smtp rejects a wrong %s', (field, change) => {
  const validate = ajv.compile(integrations.smtp.config);
  expect(validate({ ...EXAMPLES.smtp.minimal, ...change })).toBe(false);
  expect(validate.errors?.every(({ instancePath }) => instancePath.startsWith(`/${field}`))).toBe(true);
});

test('the brand is part of a name on the wire, and only there', () => {
  expect(wireNameOf('slackbot', 'acme')).toBe('acme_slackbot');
  expect(wireNameOf('slack', 'acme')).toBe('slack');
});

test('delivering providers are found by name, and nothing else', () => {
  const senders = Object.entries(integrations).filter(([, integration]) => 'connect' in integration);
  expect(Object.fromEntries(delivering)).toEqual(Object.fromEntries(senders));
});

test('the inbox config has all its keys, set or not', () => {
  expect(integrations.inbox.complete?.({ locale: 'de' })).toEqual({
    images: null,
    locale: 'de',
    theme: null,
  });
});

test('secrets are masked at any depth, and nothing else is', () => {
  const { full } = EXAMPLES.smtp;
  expect(maskSecrets(integrations.smtp.config, full as never)).toEqual({ ...full, password: '••••••' });
});

/** Returns the paths of all leaves of a schema without a description. */
function unexplained(schema: unknown, path = ''): string[] {
  if (typeof schema !== 'object' || schema === null) return [];
  const { properties, anyOf, description, type } = schema as Record<string, unknown>;
  if (typeof properties === 'object' && properties !== null) {
    return Object.entries(properties).flatMap(([key, field]) => unexplained(field, `${path}/${key}`));
  }
  if (description !== undefined || type === 'null') return [];
  return Array.isArray(anyOf) ? anyOf.flatMap((option) => unexplained(option, path)) : [path];
}
