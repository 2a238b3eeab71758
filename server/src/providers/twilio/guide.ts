import { type Guide, response } from '../shared/guide.ts';

const refused = (status: number, code: number, meaning: string) =>
  [`${status} \`${code}\`: ${meaning}`, response(status, { code, message: meaning })] as const;

export const guide: Guide = {
  override: {
    into: 'the form fields, by Twilio's names (`From`, `MessagingServiceSid`, `MediaUrl`, …)',
    locked: ['`To`'],
    notes: 'A list repeats the field. A messaging service replaces the number in `From`.',
  },
  limits: [
    [
      'text',
      '1600 characters',
      'title and content are cut and end in `…`, never the link; a longer override fails before the request',
    ],
    [
      'retries',
      'one, if it is unknown whether Twilio accepted the message',
      'the delivery fails with `ambiguous`',
    ],
  ],
  responses: [
    ['201', response(201, { sid: 'SM00000000000000000000000000000001' })],
    refused(400, 21_211, 'not a phone number'),
    refused(400, 21_610, 'the recipient has replied STOP'),
    refused(400, 21_614, 'not a mobile phone'),
    refused(400, 21_408, 'the country is not enabled'),
    refused(400, 21_606, 'the sender does not belong to the account'),
    refused(400, 21_611, 'the queue of the sender is full'),
    refused(400, 21_617, 'too long'),
    refused(401, 20_003, 'the key is wrong'),
    refused(429, 20_429, 'too many requests'),
    ['500', response(500)],
    ['504', response(504)],
  ],
};
