import { expect, test } from 'vitest';
import { InvalidSettings, readConfig } from '../../src/config.ts';

function problems(settings: Record<string, string>): readonly string[] {
  try {
    readConfig(settings);
    return [];
  } catch (error) {
    if (!(error instanceof InvalidSettings)) throw error;
    return error.problems;
  }
}

test('a password with a character that a URL cannot have is explained, and not shown', () => {
  for (const password of ['hid/den', 'hid#den', 'hid?den'])
    expect(problems({ DATABASE_URL: `postgres://belfry:${password}@db.example.com:5432/belfry` })).toEqual([
      expect.stringMatching(/^DATABASE_URL is not a valid URL: .* \/ as %2F, .* in the user and password$/),
    ]);
  expect(problems({ DATABASE_URL: 'mysql://belfry@db.example.com/belfry' })).toEqual([
    'DATABASE_URL must be an address that starts with postgres:// or postgresql://',
  ]);
});

test('a certificate of DATABASE_URL that cannot be read is named, without the password', () => {
  const url = 'postgres://belfry:hidden@db.example.com/belfry?sslmode=verify-full&sslrootcert=';
  expect(problems({ DATABASE_URL: `${url}/none/ca.pem` })).toEqual([
    'DATABASE_URL has sslrootcert=/none/ca.pem, which cannot be read (ENOENT)',
  ]);
  expect(problems({ DATABASE_URL: `${url}${process.execPath}` })).toEqual([]);
});

test.each(['PUBLIC_URL', 'PROVIDER_TWILIO_BASE_URL'])('%s can have paths added to it', (name) => {
  expect(problems({ [name]: 'https://notify.example.com/belfry/' })).toEqual([]);
  expect(problems({ [name]: 'https://notify.example.com/?a=1' })).toEqual([
    `${name} 'https://notify.example.com/?a=1' must not have a ? or #, because paths are added to it`,
  ]);
  expect(problems({ [name]: 'https://notify.example.com/#top' })).toHaveLength(1);
  // Links in e-mails would contain the password.
  expect(problems({ [name]: 'https://user:hidden@notify.example.com' })).toEqual([
    `${name} must not have a user or password`,
  ]);
});

test('no error shows the password of a URL', () => {
  const url = 'ftp://user:hidden@example.com';
  const found = problems({ PUBLIC_URL: url, OPERATOR_CONTACT: url });
  expect(found).toHaveLength(2);
  expect(found.join()).not.toContain('hidden');
});

test('a SECRET_KEY of empty variables is not the same as none', () => {
  expect(readConfig({ SECRET_KEY: '' }).SECRET_KEY).toEqual([]);
  expect(readConfig({ SECRET_KEY: `${'ab'.repeat(32)},` }).SECRET_KEY).toHaveLength(1);
  expect(problems({ SECRET_KEY: ',' })).toEqual([expect.stringMatching(/^SECRET_KEY has no key: /)]);
  expect(problems({ SECRET_KEY: ' ' })).toHaveLength(1);
});
