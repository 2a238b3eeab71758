import { answered, type Guide, TOO_BIG } from '../shared/guide.ts';
import type { mailgun } from './index.ts';

const refused = (status: number, message: string, headers = {}) =>
  [`${status} “${message}”`, answered(status, { message }, headers)] as const;

export const mailgunGuide: Guide<typeof mailgun> = {
  title: 'Mailgun',
  override: {
    into: 'the fields of the form',
    locked: ['`to`', '`v:reference`'],
    notes:
      'A list becomes the field several times, an object its JSON; `true` and `false` of an option become `yes` and `no`.',
  },
  limits: [['request', '25 MB', TOO_BIG]],
  answers: [
    ['200', answered(200, { id: '<20260702.1@mg.example.com>' })],
    refused(400, 'to parameter is not a valid address'),
    refused(400, 'from parameter is not a valid address'),
    refused(400, 'Domain mg.example.com is not allowed to send'),
    refused(400, 'anything else'),
    ['401', answered(401, 'Forbidden')],
    ['402', answered(402)],
    refused(404, 'Domain not found'),
    ['413', answered(413)],
    refused(429, 'limit exceeded, try again after Thu, 02 Jul 2026 12:05:00 UTC', {
      date: 'Thu, 02 Jul 2026 12:00:00 GMT',
    }),
    ['500', answered(500)],
  ],
};
