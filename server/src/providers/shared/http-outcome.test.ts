import { describe, expect, test } from 'vitest';
import { httpOutcome } from './http-outcome.ts';

const reply = (status: number, text = '', headers: Record<string, string> = {}) =>
  httpOutcome({ status, text, headers }, 'Acme', () => undefined);
const silence = (code: string, written = false, message = 'm') =>
  httpOutcome({ error: { code, message }, written }, 'Acme', () => ({ kind: 'sent' }));

describe('a status has a default meaning', () => {
  test.each([
    [400, { kind: 'rejected', scope: 'message', code: '400' }],
    [401, { kind: 'rejected', scope: 'config', code: '401' }],
    [403, { kind: 'rejected', scope: 'config', code: '403' }],
    [404, { kind: 'rejected', scope: 'message', code: '404' }],
    [413, { kind: 'rejected', scope: 'message', code: '413' }],
    [301, { kind: 'rejected', scope: 'config', code: '301' }],
    [408, { kind: 'retry', ambiguous: false, code: '408' }],
    [425, { kind: 'retry', ambiguous: false, code: '425' }],
    [429, { kind: 'retry', ambiguous: false, code: '429' }],
    [500, { kind: 'retry', ambiguous: false, code: '500' }],
    [502, { kind: 'retry', ambiguous: true, code: '502' }],
    [503, { kind: 'retry', ambiguous: false, code: '503' }],
    [504, { kind: 'retry', ambiguous: true, code: '504' }],
    [200, { kind: 'retry', ambiguous: true, code: '200' }],
  ])('%i', (status, outcome) => {
    expect(reply(status)).toEqual({
      ...outcome,
      reason: expect.stringContaining(`Acme responded with ${status}`),
    });
  });

  test('unless the provider overrides it', () => {
    expect(httpOutcome({ status: 500, text: '', headers: {} }, 'Acme', () => ({ kind: 'sent' }))).toEqual({
      kind: 'sent',
    });
  });
});

describe('the delay that a vendor requests', () => {
  const date = 'Wed, 01 Jul 2026 12:00:00 GMT';
  test.each([
    ['0', 0],
    ['7', 7_000],
    ['1.5', 1_500],
    ['3601', 3_600_000],
    ['Wed, 01 Jul 2026 12:00:10 GMT', 10_000],
    ['Wed, 01 Jul 2026 11:00:00 GMT', 0],
    ['Thu, 02 Jul 2026 12:00:00 GMT', 3_600_000],
    ['-1', undefined],
    ['soon', undefined],
    ['', undefined],
  ])('%s', (header, wanted) => {
    const outcome = reply(429, '', { date, 'retry-after': header });
    expect('retryAfterMs' in outcome ? outcome.retryAfterMs : undefined).toBe(wanted);
  });

  test('a date is ignored if the vendor’s time is unknown', () => {
    expect(reply(503, '', { 'retry-after': date })).not.toHaveProperty('retryAfterMs');
  });
});

describe('no response', () => {
  test.each([
    [
      'ECONNREFUSED',
      false,
      { kind: 'retry', ambiguous: false, suspect: 'config', reason: 'Acme refused the connection' },
    ],
    ['ENOTFOUND', false, { suspect: 'config', reason: 'the host name of Acme does not resolve' }],
    ['EAI_AGAIN', false, { kind: 'retry', ambiguous: false }],
    ['ETIMEDOUT', false, { kind: 'retry', ambiguous: false }],
    ['ETIMEDOUT', true, { kind: 'retry', ambiguous: true, reason: 'Acme did not respond in time' }],
    ['UND_ERR_SOCKET', true, { kind: 'retry', ambiguous: true }],
    [
      'CERT_HAS_EXPIRED',
      false,
      {
        kind: 'retry',
        ambiguous: false,
        suspect: 'config',
        reason: 'TLS with Acme failed: the certificate has expired',
      },
    ],
    ['WHATEVER', true, { kind: 'retry', ambiguous: true, reason: 'no response from Acme: m' }],
    ['EGRESS_REFUSED', false, { kind: 'rejected', scope: 'config', reason: 'm' }],
    ['ERR_INVALID_URL', false, { kind: 'rejected', scope: 'config' }],
  ])('%s, the request being written: %s', (code, written, outcome) => {
    expect(silence(code, written)).toMatchObject({ ...outcome, code });
  });
});

test.each([
  ['{"message":"No\\u0000 such\\n user"}', 'Acme responded with 400: No such user'],
  ['{"errors":[{"message":"bad"}]}', 'Acme responded with 400: bad'],
  ['plain words', 'Acme responded with 400: plain words'],
  ['<html><body>Oops</body></html>', 'Acme responded with 400'],
  ['"\ud83d', 'Acme responded with 400: "\ufffd'],
  ['', 'Acme responded with 400'],
])('the reason contains the vendor’s message: %j', (text, reason) => {
  expect(reply(400, text)).toMatchObject({ reason });
});
