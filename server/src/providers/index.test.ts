import { Ajv } from 'ajv';
import addFormats from 'ajv-formats';
import { describe, expect, test } from 'vitest';
import { emailProviders, integrations } from './index.ts';
import { maskSecrets } from './provider.ts';

const ajv = addFormats.default(new Ajv({ allErrors: true, strict: true }));

const EXAMPLES: Record<keyof typeof integrations, { minimal: object; full: object }> = {
  smtp: {
    minimal: { host: 'h', port: 25, username: '', password: '', from: { email: 'a@b.de' } },
    full: {
      host: 'smtp.example.com',
      port: 65535,
      username: 'u',
      password: 'hunter22',
      from: { email: 'a@b.de', name: 'A' },
      reply_to: { email: 'c@d.de', name: 'C' },
      security: 'starttls',
    },
  },
  inbox: {
    minimal: {},
    full: {
      images: { emptyInboxUrl: 'https://x.example/empty.png' },
      locale: 'de-CH',
      theme: {
        notification: {
          default: {
            margin: '0',
            fontFamily: 'inherit',
            fontSize: '14px',
            textColor: '#000',
            borderRadius: '4px',
            backgroundColor: '#fff',
            hover: { backgroundColor: '#eee' },
          },
          hover: { backgroundColor: '#eee' },
          state: { color: '#f00' },
          unseen: {
            textColor: '#000',
            backgroundColor: '#fff',
            state: { color: '#f00' },
            hover: { backgroundColor: '#eee' },
          },
          unread: { textColor: '#000', backgroundColor: '#fff', hover: { backgroundColor: '#eee' } },
        },
        banner: { backgroundColor: '#fff', backgroundOpacity: 0.5, fontSize: '14px', textColor: '#000' },
        dialog: { accentColor: '#f00', backgroundColor: '#fff', textColor: '#000' },
        footer: { backgroundColor: '#fff', borderRadius: '0', fontSize: '14px', textColor: '#000' },
        header: {
          backgroundColor: '#fff',
          borderRadius: '0',
          fontSize: '14px',
          textColor: '#000',
          fontFamily: 'inherit',
        },
        icon: { borderColor: '#000', width: '24px' },
        unseenBadge: { backgroundColor: '#f00' },
      },
    },
  },
};

describe.each(Object.entries(integrations))('%s', (name, integration) => {
  const validate = ajv.compile(integration.config);
  const { minimal, full } = EXAMPLES[name as keyof typeof integrations];

  test('is listed by its own name and says where its documentation is', () => {
    expect(integration.name).toBe(name);
    expect(URL.canParse(integration.docs)).toBe(true);
  });

  test('takes the least and the most that can be configured', () => {
    expect(validate(minimal), JSON.stringify(validate.errors)).toBe(true);
    expect(validate(full), JSON.stringify(validate.errors)).toBe(true);
  });

  test('refuses what it does not know, by name', () => {
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
  ['from', { from: { email: 'nobody' } }],
  ['from', { from: { name: 'A' } }],
  ['reply_to', { reply_to: null }],
  ['security', { security: 'tls' }],
])('smtp refuses a wrong %s', (field, change) => {
  const validate = ajv.compile(integrations.smtp.config);
  expect(validate({ ...EXAMPLES.smtp.minimal, ...change })).toBe(false);
  expect(validate.errors?.every(({ instancePath }) => instancePath.startsWith(`/${field}`))).toBe(true);
});

test('every e-mail provider is found by its name', () => {
  expect([...emailProviders].map(([name, { channel }]) => [name, channel])).toEqual([['smtp', 'email']]);
});

test('the inbox config has all its keys, set or not', () => {
  expect(integrations.inbox.complete?.({ locale: 'de' })).toEqual({
    images: null,
    locale: 'de',
    theme: null,
  });
});

test('secrets are masked wherever they stand, and nothing else is', () => {
  const { full } = EXAMPLES.smtp;
  expect(maskSecrets(integrations.smtp.config, full as never)).toEqual({ ...full, password: '••••••' });
});

/** The paths of all leaves of a schema that have no description. */
function unexplained(schema: unknown, path = ''): string[] {
  if (typeof schema !== 'object' || schema === null) return [];
  const { properties, anyOf, description, type } = schema as Record<string, unknown>;
  if (typeof properties === 'object' && properties !== null) {
    return Object.entries(properties).flatMap(([key, field]) => unexplained(field, `${path}/${key}`));
  }
  if (description !== undefined || type === 'null') return [];
  return Array.isArray(anyOf) ? anyOf.flatMap((option) => unexplained(option, path)) : [path];
}
