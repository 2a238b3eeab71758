import { type Guide, response, TOO_BIG } from '../shared/guide.ts';

const rejected = (status: number, message: string, headers = {}) =>
  [`${status} “${message}”`, response(status, { message }, headers)] as const;

export const guide: Guide = {
  override: {
    into: 'the fields of the form',
    locked: ['`to`', '`v:reference`'],
    notes: 'A list repeats the field, an object becomes JSON; booleans in options become `yes` and `no`.',
  },
  limits: [['request', '25 MB', TOO_BIG]],
  responses: [
    ['200', response(200, { id: '<20260702.1@mg.example.com>' })],
    rejected(400, 'to parameter is not a valid address'),
    rejected(400, 'from parameter is not a valid address'),
    rejected(400, 'Domain mg.example.com is not allowed to send'),
    rejected(400, 'anything else'),
    ['401', response(401, 'Forbidden')],
    ['402', response(402)],
    rejected(404, 'Domain not found'),
    ['413', response(413)],
    rejected(429, 'limit exceeded, try again after Thu, 02 Jul 2026 12:05:00 UTC', {
      date: 'Thu, 02 Jul 2026 12:00:00 GMT',
    }),
    ['500', response(500)],
  ],
};
