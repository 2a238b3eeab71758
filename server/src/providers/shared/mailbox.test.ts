import { addressParser, decodeWords } from 'postal-mime';
import { expect, test } from 'vitest';
import { formatMailbox, messageId, normalizeMailbox } from './mailbox.ts';

test.each([
  ['Ada', '"Ada" <ada@example.com>'],
  ['Ada "the Count" L\\', '"Ada \\"the Count\\" L\\\\" <ada@example.com>'],
  ['Eve\r\nBcc: x@y.z', '"Eve Bcc: x@y.z" <ada@example.com>'],
  ['Jörg', '=?UTF-8?B?SsO2cmc=?= <ada@example.com>'],
  ['=?utf-8?Q?fake?=', '=?UTF-8?B?PT91dGYtOD9RP2Zha2U/PQ==?= <ada@example.com>'],
  [' ', 'ada@example.com'],
  [null, 'ada@example.com'],
])('a mailbox named %j', (name, wanted) => {
  expect(formatMailbox({ email: 'ada@example.com', name })).toBe(wanted);
});

test('a long name stays readable for mail programs, without a broken character', () => {
  const header = formatMailbox({ email: 'ada@exämple.com', name: '😀ä'.repeat(300) });
  expect(header).toMatch(/^[\x20-\x7e]*$/);
  for (const word of header.split(' ').slice(0, -1)) expect(word.length).toBeLessThanOrEqual(75);
  const [mailbox] = addressParser(decodeWords(header));
  expect(mailbox).toMatchObject({ address: 'ada@xn--exmple-cua.com' });
  expect('😀ä'.repeat(300).startsWith(mailbox?.name ?? '-')).toBe(true);
});

test('an empty name is left out', () => {
  expect(normalizeMailbox({ email: 'a@b.de', name: null })).toEqual({ email: 'a@b.de' });
  expect(normalizeMailbox({ email: 'a@b.de', name: ' A\n' })).toEqual({ email: 'a@b.de', name: 'A' });
});

test('the Message-ID is at the domain of the sender', () => {
  expect(messageId('0197', { email: 'news@exämple.com' })).toBe('<0197@xn--exmple-cua.com>');
});
