import { createHmac, createSecretKey, generateKeyPairSync, sign } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { decodeJwt, signJwt, verifyJwt } from './jwt.ts';

const key = createSecretKey(Buffer.from('sk_of_the_project'));
const NOW = 1_800_000_000_000;
const seconds = NOW / 1000;
const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
const hmac = (text: string, hash = 'sha256') => createHmac(hash, key).update(text).digest('base64url');

function token(
  header: unknown,
  claims: unknown,
  signature = hmac(`${part(header)}.${part(claims)}`),
): string {
  return `${part(header)}.${part(claims)}.${signature}`;
}

describe('a JWT', () => {
  test('that was signed with the key answers its claims', () => {
    expect(verifyJwt(signJwt({ sub: 'x', n: 1 }, key), key, NOW)).toEqual({
      ok: true,
      claims: { sub: 'x', n: 1 },
    });
  });

  test('from RFC 7515, appendix A.1, verifies', () => {
    const published =
      'eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk';
    const octets = 'AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow';
    const rfcKey = createSecretKey(Buffer.from(octets, 'base64url'));
    expect(verifyJwt(published, rfcKey, 1_300_819_379_000).ok).toBe(true);
    expect(verifyJwt(published, rfcKey, 1_300_819_380_000)).toEqual({ ok: false, reason: 'expired' });
  });

  test('of another algorithm is refused, however it is signed', () => {
    const claims = { sub: 'x' };
    const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
    const rs = { alg: 'RS256', typ: 'JWT' };
    const rsSignature = sign('sha256', Buffer.from(`${part(rs)}.${part(claims)}`), privateKey).toString(
      'base64url',
    );
    const forged = [
      token({ alg: 'none' }, claims, ''),
      token({ alg: 'none' }, claims),
      token({ alg: 'None' }, claims),
      token({ alg: 'hs256' }, claims),
      token({ alg: 'HS512' }, claims, hmac(`${part({ alg: 'HS512' })}.${part(claims)}`, 'sha512')),
      token(rs, claims, rsSignature),
      token(rs, claims),
    ];
    for (const text of forged) expect(verifyJwt(text, key, NOW)).toEqual({ ok: false, reason: 'signature' });
  });

  test('whose signature is spelt otherwise, or is cut, longer or of another key, is refused', () => {
    const good = signJwt({ sub: 'x' }, key);
    const last = good.at(-1) ?? '';
    // The last character carries 4 bits of signature and 2 of padding: its neighbour decodes to the same
    // bytes.
    const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
    const twin = good.slice(0, -1) + alphabet[alphabet.indexOf(last) ^ 1];
    expect(Buffer.from(twin.split('.')[2] ?? '', 'base64url')).toEqual(
      Buffer.from(good.split('.')[2] ?? '', 'base64url'),
    );
    for (const text of [
      twin,
      good.slice(0, -1),
      `${good}A`,
      signJwt({ sub: 'x' }, createSecretKey(Buffer.from('other'))),
    ]) {
      expect(verifyJwt(text, key, NOW)).toEqual({ ok: false, reason: 'signature' });
    }
  });

  test('that is none is unparsable', () => {
    const header = part({ alg: 'HS256' });
    const invalidUtf8 = Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]).toString('base64url');
    const texts = [
      '',
      '.',
      '..',
      'a',
      'a.b',
      'a.b.c',
      'a.b.c.d',
      `${header}..${hmac(`${header}.`)}`,
      token({ alg: 'HS256' }, []),
      token({ alg: 'HS256' }, 'text'),
      token({ alg: 'HS256' }, null),
      token([], {}),
      token({}, {}),
      token({ alg: 'HS256', crit: ['exp'] }, {}),
      `${header}.${invalidUtf8}.${hmac(`${header}.${invalidUtf8}`)}`,
      `${header}.${part({ sub: 'x' })}=.${hmac('x')}`,
      `${header}.${part({})} .${hmac('x')}`,
      `${signJwt({}, key)}.x`,
      signJwt({ sub: 'x'.repeat(10_000) }, key),
    ];
    for (const text of texts)
      expect(verifyJwt(text, key, NOW), text.slice(0, 80)).toEqual({ ok: false, reason: 'unparsable' });
  });

  test('is valid from nbf and iat, with 30 s for clocks that differ, to exp, with none', () => {
    const at = (claims: Record<string, unknown>) => {
      const verdict = verifyJwt(signJwt(claims, key), key, NOW);
      return verdict.ok ? 'ok' : verdict.reason;
    };
    expect(at({ exp: seconds + 1 })).toBe('ok');
    expect(at({ exp: seconds })).toBe('expired');
    expect(at({ exp: seconds - 1 })).toBe('expired');
    for (const name of ['nbf', 'iat']) {
      expect(at({ [name]: seconds + 30 })).toBe('ok');
      expect(at({ [name]: seconds + 31 })).toBe('not_yet_valid');
    }
    for (const wrong of ['1', null, {}, true]) expect(at({ exp: wrong })).toBe('unparsable');
  });

  test('cannot smuggle claims through a prototype', () => {
    const payload = Buffer.from('{"__proto__":{"role":"project"},"constructor":1}').toString('base64url');
    const header = part({ alg: 'HS256' });
    const verdict = verifyJwt(`${header}.${payload}.${hmac(`${header}.${payload}`)}`, key, NOW);
    expect(verdict.ok && verdict.claims.role).toBe(undefined);
    expect(({} as Record<string, unknown>).role).toBe(undefined);
  });

  test('of any text is a value, never an exception', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string({ unit: 'binary' }),
          fc.array(fc.base64String(), { maxLength: 5 }).map((parts) => parts.join('.')),
        ),
        (text) => {
          decodeJwt(text);
          expect(verifyJwt(text, key, NOW).ok).toBe(false);
        },
      ),
    );
  });
});
