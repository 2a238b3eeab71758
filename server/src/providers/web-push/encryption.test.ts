import { createECDH, createPrivateKey } from 'node:crypto';
import { expect, test } from 'vitest';
import { decryptPush } from '../../../test/support/http-ece.ts';
import { encrypt, OVERHEAD_BYTES, readRecipient } from './encryption.ts';

// https://www.rfc-editor.org/rfc/rfc8291#appendix-A
const VECTOR = {
  text: 'When I grow up, I want to be a watermelon',
  sender: {
    d: 'yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw',
    point: 'BP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A8',
  },
  p256dh: 'BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4',
  auth: 'BTBZMqHH6r4Tts7J_aSIgg',
  salt: 'DGv6ra1nlYgDCS1FRnbzlw',
  body:
    // language-ignore: quoted from the RFC
    'DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_' +
    'yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN',
};

const bytes = (text: string) => Buffer.from(text, 'base64url');

function usable(keys: { p256dh: string; auth: string }) {
  const recipient = readRecipient(keys);
  if (recipient === undefined) throw new Error('these keys are usable');
  return recipient;
}

function browser() {
  const pair = createECDH('prime256v1');
  const p256dh = pair.generateKeys('base64url');
  const auth = Buffer.alloc(16, 7).toString('base64url');
  const read = (body: Buffer): string => decryptPush(body, { privateKey: pair, auth });
  return { keys: { p256dh, auth }, read };
}

test('the example of RFC 8291 is reproduced byte for byte', () => {
  const { d, point } = VECTOR.sender;
  const [x, y] = [bytes(point).toString('base64url', 1, 33), bytes(point).toString('base64url', 33)];
  const privateKey = createPrivateKey({ format: 'jwk', key: { kty: 'EC', crv: 'P-256', x, y, d } });
  const body = encrypt(Buffer.from(VECTOR.text), usable(VECTOR), {
    sender: { privateKey, point: bytes(point) },
    salt: bytes(VECTOR.salt),
  });
  expect(body.toString('base64url')).toBe(VECTOR.body);
});

test('another implementation decrypts texts of any length', () => {
  const { keys, read } = browser();
  const recipient = usable(keys);
  for (const text of ['', 'a', 'ü😀'.repeat(100), 'x'.repeat(3993)]) {
    const body = encrypt(Buffer.from(text), recipient);
    expect(body.length).toBe(Buffer.byteLength(text) + OVERHEAD_BYTES);
    expect(read(body)).toBe(text);
  }
});

test('each message has its own salt and key pair, also to the same browser', () => {
  const { keys, read } = browser();
  const recipient = usable(keys);
  const bodies = Array.from({ length: 100 }, () => encrypt(Buffer.from('same'), recipient));
  const parts = (from: number, to?: number) => new Set(bodies.map((body) => body.toString('hex', from, to)));
  expect([parts(0, 16).size, parts(21, 86).size, parts(86).size]).toEqual([100, 100, 100]);
  for (const body of bodies) expect(read(body)).toBe('same');
});

test('only the browser with the secret can decrypt it', () => {
  const [one, other] = [browser(), browser()];
  const body = encrypt(Buffer.from('secret'), usable(one.keys));
  expect(() => other.read(body)).toThrow();
  expect(body.includes('secret')).toBe(false);
});

test('keys in plain base64 are the same keys', () => {
  const { keys, read } = browser();
  const padded = (text: string) => bytes(text).toString('base64');
  const recipient = usable({ p256dh: padded(keys.p256dh), auth: padded(keys.auth) });
  expect(read(encrypt(Buffer.from('hi'), recipient))).toBe('hi');
});

const offCurve = Buffer.from(VECTOR.p256dh, 'base64url');
offCurve[64] = 0;
test.each([
  ['nothing', { p256dh: '', auth: '' }],
  ['a short secret', { p256dh: VECTOR.p256dh, auth: 'BTBZMqHH6r4Tts7J' }],
  ['a long secret', { p256dh: VECTOR.p256dh, auth: `${VECTOR.auth}AAAA` }],
  ['a point that is not on the curve', { p256dh: offCurve.toString('base64url'), auth: VECTOR.auth }],
  ['the point at infinity', { p256dh: Buffer.alloc(65).toString('base64url'), auth: VECTOR.auth }],
  ['a compressed point', { p256dh: bytes(VECTOR.p256dh).toString('base64url', 0, 33), auth: VECTOR.auth }],
  ['words', { p256dh: 'not a key', auth: 'nor this' }],
])('keys with %s are rejected', (_, keys) => {
  expect(readRecipient(keys)).toBeUndefined();
});
