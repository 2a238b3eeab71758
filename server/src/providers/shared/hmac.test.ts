import { createHmac } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { hmac, hmacText } from './hmac.ts';

test('equals the HMAC of node for any key up to a block and any text', () => {
  const text = fc.oneof(fc.uint8Array({ maxLength: 2_000 }), fc.string({ unit: 'binary', maxLength: 700 }));
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 64 }), text, (key, given) => {
      const theirs = () => createHmac('sha256', key).update(given);
      expect(hmac(key, given)).toEqual(theirs().digest());
      expect(hmacText(key, given, 'hex')).toBe(theirs().digest('hex'));
    }),
    { numRuns: 500 },
  );
});
