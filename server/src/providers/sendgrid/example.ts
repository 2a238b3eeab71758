import { response } from '../shared/guide.ts';
import type { Rejections } from '../shared/rejections.ts';

const mailbox = { email: 'a@b.de', name: null };

/** The smallest and the largest config that a project can save. For tests. */
export const example = {
  minimal: { api_key: '' },
  full: {
    api_key: 'SG.x',
    from: mailbox,
    reply_to: { email: 'c@d.de' },
    region: 'eu',
    webhook_public_key: 'MFkw',
    max_per_second: 10_000,
  },
};

export const rejections: Rejections = [
  ['401', response(401), 'integration'],
  ['402', response(402), 'integration'],
  ['403', response(403, { errors: [{ field: 'from' }] }), 'integration'],
  ['403 about the recipient', response(403, { errors: [{ field: 'personalizations.0.to' }] }), 'destination'],
  ['maximum credits', response(400, { errors: [{ message: 'Maximum credits exceeded' }] }), 'integration'],
  ['429', response(429), 'vendor'],
];
