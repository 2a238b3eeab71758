import { response } from '../shared/guide.ts';
import type { Rejections } from '../shared/rejections.ts';

/** The smallest and the largest config that a project can save. For tests. */
export const example = {
  minimal: { account_sid: 'a', api_key: 'k', api_secret: 's', from: '+1' },
  full: {
    account_sid: 'a'.repeat(100),
    api_key: 'k'.repeat(100),
    api_secret: 's'.repeat(100),
    from: '+12345678901234',
    auth_token: 'hunter22',
    max_per_second: 0.1,
  },
};

export const rejections: Rejections = [
  ...[20003, 20008, 20404, 21212, 21603, 21660].map(
    (code) => [`${code}`, response(400, { code }), 'integration'] as const,
  ),
  ...[21408, 21606, 21608, 21612, 21659].map(
    (code) => [`${code}`, response(400, { code }), 'destination'] as const,
  ),
  ['401', response(401), 'integration'],
  ['403 with a code', response(403, { code: 29999 }), 'destination'],
  ['404 without a code', response(404), 'integration'],
  ['429 20429', response(429, { code: 20429 }), 'vendor'],
  ['21611', response(400, { code: 21611 }), 'vendor'],
];
