import { answered, type Guide, TOO_BIG } from '../shared/guide.ts';
import type { sendgrid } from './index.ts';

export const sendgridGuide: Guide<typeof sendgrid> = {
  title: 'Twilio SendGrid',
  override: {
    into: 'the body of `POST /v3/mail/send`',
    locked: ['`personalizations[].to`', 'their number', '`custom_args.reference`'],
  },
  limits: [['request', '30 MB', TOO_BIG]],
  answers: [
    ['202', answered(202, '', { 'x-message-id': 'abc' })],
    [
      '400 about `personalizations.0.to`',
      answered(400, { errors: [{ field: 'personalizations.0.to.0.email' }] }),
    ],
    ['400 about another field', answered(400, { errors: [{ field: 'subject' }] })],
    ['401', answered(401)],
    ['402, or “Maximum credits exceeded”', answered(402)],
    ['403', answered(403)],
    ['413', answered(413)],
    [
      '429 with `X-RateLimit-Reset`',
      answered(429, '', { 'x-ratelimit-reset': '1782993630', date: 'Thu, 02 Jul 2026 12:00:00 GMT' }),
    ],
    ['500', answered(500)],
    ['502', answered(502)],
  ],
};
