import { response } from '../shared/guide.ts';
import type { Rejections } from '../shared/rejections.ts';

/** The smallest and the largest config that a project can save. For tests. */
export const example = {
  minimal: { public_key: 'p'.repeat(8), private_key: 's'.repeat(8) },
  full: { public_key: 'p'.repeat(128), private_key: 's'.repeat(128) },
};

export const rejections: Rejections = [
  ['401', response(401), 'destination'],
  ['403', response(403), 'destination'],
  ['403, other keys', response(403, 'the VAPID credentials do not correspond'), 'destination'],
  ['400 errno 110', response(400, { errno: 110 }), 'destination'],
  ['400 UnauthorizedRegistration', response(400, 'UnauthorizedRegistration'), 'destination'],
  ['keys that are no pair', { error: { code: 'BAD_VAPID_KEYS', message: '' } }, 'integration'],
  ['406', response(406), 'vendor'],
  ['503', response(503), 'vendor'],
];
