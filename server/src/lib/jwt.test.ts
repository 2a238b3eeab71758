import { createHmac, createSecretKey, generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { decodeJwt, signJwt, verifyJwt } from './jwt.ts';

const key = createSecretKey(Buffer.from('sk_of_the_project'));
const NOW = 1_800_000_000_000;
const seconds = NOW / 1000;
const text = (json: string | Buffer) => Buffer.from(json).toString('base64url');
const part = (value: unknown) => text(JSON.stringify(value));
const hmac = (signed: string, hash = 'sha256', by: KeyObject | Buffer = key) =>
  createHmac(hash, by).update(signed).digest('base64url');

const HS256 = part({ alg: 'HS256' });
const CLAIMS = part({ sub: 'x' });

/** Returns a token with a valid signature over any parts. */
const signed = (header: string, claims: string) => `${header}.${claims}.${hmac(`${header}.${claims}`)}`;
/** Returns a token of a JSON header and JSON claims. */
const token = (header: unknown, claims: unknown) => signed(part(header), part(claims));

async function reasonFor(jwt: string): Promise<string> {
  const verdict = await verifyJwt(jwt, key, NOW);
  return verdict.ok ? 'ok' : verdict.reason;
}

async function expectReason(reason: string, tokens: readonly string[]): Promise<void> {
  for (const jwt of tokens) expect(await reasonFor(jwt), jwt.slice(0, 80)).toBe(reason);
}

const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 });

describe('a valid JWT', () => {
  test('resolves to its claims', async () => {
    expect(await verifyJwt(await signJwt({ sub: 'x', n: 1 }, key), key, NOW)).toEqual({
      ok: true,
      claims: { sub: 'x', n: 1 },
    });
  });

  test('from RFC 7515, appendix A.1, verifies', async () => {
    const published =
      'eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.' +
      'eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.' +
      'dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk';
    const octets = 'AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow';
    const rfcKey = createSecretKey(Buffer.from(octets, 'base64url'));
    expect((await verifyJwt(published, rfcKey, 1_300_819_379_000)).ok).toBe(true);
    expect(await verifyJwt(published, rfcKey, 1_300_819_380_000)).toEqual({ ok: false, reason: 'expired' });
  });

  test('is valid from nbf and iat, with 30 s of leeway, until exp, with none', async () => {
    const at = (claims: Record<string, unknown>) => reasonFor(token({ alg: 'HS256' }, claims));
    expect(await at({ exp: seconds + 1 })).toBe('ok');
    expect(await at({ exp: seconds })).toBe('expired');
    expect(await at({ exp: seconds - 1 })).toBe('expired');
    expect(await at({ exp: seconds - 31 })).toBe('expired');
    for (const name of ['nbf', 'iat']) {
      expect(await at({ [name]: seconds + 30 })).toBe('ok');
      expect(await at({ [name]: seconds + 31 })).toBe('not_yet_valid');
    }
  });

  test('signed by another algorithm names it in its header', async () => {
    const jwt = await signJwt({ iss: 'team' }, rsa.privateKey, { alg: 'RS256', kid: 'k1' });
    const [header = '', claims = '', signature] = jwt.split('.');
    expect(JSON.parse(Buffer.from(header, 'base64url').toString())).toEqual({ alg: 'RS256', kid: 'k1' });
    expect(decodeJwt(jwt)).toEqual({ iss: 'team' });
    const expected = sign('sha256', Buffer.from(`${header}.${claims}`), rsa.privateKey);
    expect(signature).toBe(expected.toString('base64url'));
  });
});

describe('a forged JWT is rejected', () => {
  test('with another algorithm than HS256, however it is signed', async () => {
    const rs = part({ alg: 'RS256', typ: 'JWT' });
    const rsSignature = sign('sha256', Buffer.from(`${rs}.${CLAIMS}`), rsa.privateKey).toString('base64url');
    const hs512 = part({ alg: 'HS512' });
    await expectReason('signature', [
      `${part({ alg: 'none' })}.${CLAIMS}.`,
      ...['none', 'None', 'NONE', 'nOnE', 'hs256', 'HS256 '].map((alg) => token({ alg }, { sub: 'x' })),
      `${hs512}.${CLAIMS}.${hmac(`${hs512}.${CLAIMS}`, 'sha512')}`,
      `${rs}.${CLAIMS}.${rsSignature}`,
      token({ alg: 'RS256' }, { sub: 'x' }),
    ]);
  });

  test('with the public key of an RSA pair as the secret of HS256', async () => {
    const pem = rsa.publicKey.export({ type: 'spki', format: 'pem' });
    const forged = `${HS256}.${CLAIMS}.${hmac(`${HS256}.${CLAIMS}`, 'sha256', Buffer.from(pem))}`;
    expect(await reasonFor(forged)).toBe('signature');
  });

  test('with two algorithms, of which the last counts', async () => {
    await expectReason('signature', [signed(text('{"alg":"HS256","alg":"none"}'), CLAIMS)]);
    await expectReason('ok', [signed(text('{"alg":"none","alg":"HS256"}'), CLAIMS)]);
  });

  test('with its own key in the header, by value or by URL', async () => {
    const own = Buffer.from('k'.repeat(32));
    const headers = [
      { alg: 'HS256', jwk: { kty: 'oct', k: own.toString('base64url') } },
      { alg: 'HS256', jku: 'http://127.0.0.1:9/keys.json' },
      { alg: 'HS256', x5u: 'http://127.0.0.1:9/key.pem' },
      { alg: 'HS256', x5c: [own.toString('base64')] },
      ...['/dev/null', '../../etc/hostname', "x' or '1'='1", 'other'].map((kid) => ({ alg: 'HS256', kid })),
    ];
    for (const header of headers) {
      const head = `${part(header)}.${CLAIMS}`;
      for (const by of [own, Buffer.alloc(32)])
        expect(await reasonFor(`${head}.${hmac(head, 'sha256', by)}`)).toBe('signature');
      expect(await reasonFor(`${head}.${hmac(head)}`)).toBe('ok'); // such a header chooses no key
    }
  });

  test('with a signature that is truncated, longer, not canonical or made by another key', async () => {
    const good = signed(HS256, CLAIMS);
    // The last character has 4 bits of signature and 2 of padding: its neighbour decodes to the same bytes.
    const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
    const twin = good.slice(0, -1) + alphabet[alphabet.indexOf(good.at(-1) ?? '') ^ 1];
    expect(Buffer.from(twin.split('.')[2] ?? '', 'base64url')).toEqual(
      Buffer.from(good.split('.')[2] ?? '', 'base64url'),
    );
    await expectReason('signature', [
      twin,
      good.slice(0, -1),
      good.slice(0, good.lastIndexOf('.') + 1),
      `${good}A`,
      `${good}AAAA`,
      await signJwt({ sub: 'x' }, createSecretKey(Buffer.from('other'))),
    ]);
    await expectReason('unparsable', [good.slice(0, -2), `${good}AA`]); // not base64url
  });

  test('with a valid signature of other claims', async () => {
    const [header, , signature] = signed(HS256, CLAIMS).split('.');
    expect(await reasonFor(`${header}.${part({ sub: 'y' })}.${signature}`)).toBe('signature');
  });
});

describe('an unusable JWT is rejected', () => {
  test('when it is not a JWT', async () => {
    const invalidUtf8 = text(Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]));
    const good = signed(HS256, CLAIMS);
    await expectReason('unparsable', [
      ...['', '.', '..', 'a', 'a.b', 'a.b.c', 'a.b.c.d', 'a.b.c.d.e'],
      signed(HS256, ''),
      signed('', CLAIMS),
      token({ alg: 'HS256' }, []),
      token({ alg: 'HS256' }, 'text'),
      token({ alg: 'HS256' }, null),
      token([], {}),
      token({}, {}),
      token({ alg: 5 }, {}),
      token({ alg: ['HS256'] }, {}),
      token(null, {}),
      signed(HS256, invalidUtf8),
      signed(invalidUtf8, CLAIMS),
      signed(HS256, text('{"sub":')),
      signed(HS256, `${CLAIMS}=`),
      signed(HS256, `${part({})} `),
      signed(HS256, `${part({})}\n`),
      signed(HS256, part({ sub: '>>>???' }).replaceAll('-', '+').replaceAll('_', '/')),
      `${good}.x`,
      `${good}=`,
      `${good}\n`,
    ]);
  });

  test('when its header demands an extension (crit)', async () => {
    const demands = [
      ['exp'],
      ['b64', 'exp'],
      ['alg'],
      ['http://example.com/x'],
      [],
      'exp',
      {},
      '',
      0,
      false,
      null,
    ];
    for (const crit of demands) {
      const header = { alg: 'HS256', crit, b64: true, exp: 1, 'http://example.com/x': 1 };
      await expectReason('unparsable', [token(header, { sub: 'x' })]);
    }
    // Known to RFC 7797, and without effect when it is true.
    await expectReason('ok', [token({ alg: 'HS256', crit: ['b64'], b64: true }, { sub: 'x' })]);
    const unencoded = part({ alg: 'HS256', crit: ['b64'], b64: false });
    await expectReason('unparsable', [signed(unencoded, CLAIMS), signed(unencoded, '{"sub":"x"}')]);
  });

  test('when its times are not numbers, and names all of them', async () => {
    for (const wrong of ['1', `${seconds + 60}`, null, {}, [seconds + 60], true]) {
      for (const name of ['exp', 'nbf', 'iat']) {
        const verdict = await verifyJwt(token({ alg: 'HS256' }, { [name]: wrong }), key, NOW);
        expect(verdict).toEqual({ ok: false, reason: 'unparsable', claims: [name] });
      }
    }
    const all = token({ alg: 'HS256' }, { exp: 'x', nbf: null, iat: [] });
    expect(await verifyJwt(all, key, NOW)).toMatchObject({ claims: ['exp', 'nbf', 'iat'] });
    for (const exp of ['1e999', '-1e999'])
      expect(['unparsable', 'expired']).toContain(await reasonFor(signed(HS256, text(`{"exp":${exp}}`))));
  });

  test('when it is very long, before it is decoded', async () => {
    await expectReason('unparsable', [
      token({ alg: 'HS256' }, { sub: 'x'.repeat(10_000) }),
      token({ alg: 'HS256', kid: 'x'.repeat(10_000) }, { sub: 'x' }),
      token({ alg: 'HS256' }, { sub: 'x'.repeat(10_000_000) }),
      `${HS256}.${CLAIMS}.${'A'.repeat(10_000_000)}`,
      '.'.repeat(10_000_000),
      `${HS256}.${text(`${'['.repeat(5_000)}${']'.repeat(5_000)}`)}.${hmac('x')}`,
    ]);
    await expectReason('ok', [token({ alg: 'HS256' }, { sub: 'x'.repeat(6_000) })]);
  });
});

test('the last of two claims with the same name counts, before and after verification', async () => {
  const twice = signed(HS256, text('{"sub":"first","exp":1,"sub":"last","exp":1900000000}'));
  expect(decodeJwt(twice)).toEqual({ sub: 'last', exp: 1_900_000_000 });
  expect(await verifyJwt(twice, key, NOW)).toEqual({ ok: true, claims: decodeJwt(twice) });
  const expired = signed(HS256, text(`{"exp":1900000000,"exp":1}`));
  expect(await reasonFor(expired)).toBe('expired');
});

test('claims cannot be injected through a prototype', async () => {
  const payload = text('{"__proto__":{"role":"project","exp":9e9},"constructor":1}');
  const verdict = await verifyJwt(signed(HS256, payload), key, NOW);
  expect(verdict.ok && verdict.claims.role).toBe(undefined);
  expect(verdict.ok && verdict.claims.exp).toBe(undefined);
  expect(({} as Record<string, unknown>).role).toBe(undefined);
  const header = text('{"__proto__":{"alg":"HS256"}}');
  expect(await reasonFor(signed(header, CLAIMS))).toBe('unparsable');
});

test('any text resolves to a verdict', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.oneof(
        fc.string({ unit: 'binary' }),
        fc.array(fc.base64String(), { maxLength: 5 }).map((parts) => parts.join('.')),
        fc.tuple(fc.jsonValue(), fc.jsonValue()).map(([header, claims]) => token(header, claims)),
      ),
      async (jwt) => {
        decodeJwt(jwt);
        expect((await verifyJwt(jwt, key, NOW)).ok).toBe(false);
      },
    ),
  );
});

test('any claims with a valid signature resolve to a verdict', async () => {
  const claims = fc.dictionary(fc.constantFrom('exp', 'nbf', 'iat', 'sub', 'crit'), fc.jsonValue());
  await fc.assert(
    fc.asyncProperty(claims, async (some) => {
      expect(['ok', 'expired', 'not_yet_valid', 'unparsable']).toContain(
        await reasonFor(token({ alg: 'HS256' }, some)),
      );
    }),
  );
});
