import { type Guide, response } from '../shared/guide.ts';

const rejected = (status: number, code: number, meaning: string) =>
  [`${status} \`${code}\`: ${meaning}`, response(status, { code, message: meaning })] as const;

export const guide: Guide = {
  override: {
    into: "the form fields, by Twilio's names (`From`, `MessagingServiceSid`, `MediaUrl`, …)",
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
    rejected(400, 21_211, 'not a phone number'),
    rejected(400, 21_610, 'the recipient has replied STOP'),
    rejected(400, 21_614, 'not a mobile phone'),
    rejected(400, 21_635, 'a landline'),
    rejected(400, 21_408, 'the country is not enabled'),
    rejected(400, 21_606, 'the sender cannot send to this number'),
    rejected(400, 21_660, 'the sender does not belong to the account'),
    rejected(400, 21_611, 'the queue of the sender is full'),
    rejected(400, 21_617, 'too long'),
    rejected(401, 20_003, 'the key is wrong'),
    rejected(429, 20_429, 'too many requests'),
    ['500', response(500)],
    ['504', response(504)],
  ],
};
