import { response } from '../shared/guide.ts';
import type { Rejections } from '../shared/rejections.ts';

const mailbox = { email: 'a@b.de', name: null };

/** The smallest and the largest config that a project can save. For tests. */
export const example = {
  minimal: { api_key: 'k', domain: 'd', region: 'us' },
  full: {
    api_key: 'k',
    domain: 'mg.b.de',
    region: 'eu',
    from: mailbox,
    webhook_signing_key: 'hunter22',
    max_per_second: 100,
  },
};

export const rejections: Rejections = [
  ['401', response(401, 'Forbidden'), 'integration'],
  ['402', response(402), 'integration'],
  ['403', response(403, { message: 'add the address to authorized recipients' }), 'destination'],
  ['404', response(404, { message: 'Domain not found' }), 'integration'],
  ['400 from', response(400, { message: "'from' parameter is not valid" }), 'integration'],
  ['400 not allowed', response(400, { message: 'Domain sandbox is not allowed to send' }), 'destination'],
  ['429', response(429), 'vendor'],
];
