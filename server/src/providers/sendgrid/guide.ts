import { type Guide, response, TOO_BIG } from '../shared/guide.ts';

export const guide: Guide = {
  override: {
    into: 'the body of `POST /v3/mail/send`',
    locked: ['`personalizations[].to`', 'their number', '`custom_args.reference`'],
  },
  limits: [['request', '30 MB', TOO_BIG]],
  responses: [
    ['202', response(202, '', { 'x-message-id': 'abc' })],
    [
      '400 about `personalizations.0.to`',
      response(400, { errors: [{ field: 'personalizations.0.to.0.email' }] }),
    ],
    ['400 about another field', response(400, { errors: [{ field: 'subject' }] })],
    ['401', response(401)],
    ['402, or “Maximum credits exceeded”', response(402)],
    ['403', response(403)],
    ['413', response(413)],
    [
      '429 with `X-RateLimit-Reset`',
      response(429, '', { 'x-ratelimit-reset': '1782993630', date: 'Thu, 02 Jul 2026 12:00:00 GMT' }),
    ],
    ['500', response(500)],
    ['502', response(502)],
  ],
};
