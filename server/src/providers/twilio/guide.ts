import { type Guide, response } from '../shared/guide.ts';

const refused = (status: number, code: number, meaning: string) =>
  [`${status} \`${code}\`: ${meaning}`, response(status, { code, message: meaning })] as const;

export const guide: Guide = {
  override: {
    into: 'the fields of the form, as Twilio names them (`From`, `MessagingServiceSid`, `MediaUrl`, …)',
    locked: ['`To`'],
    notes: 'A list becomes the field several times. A messaging service takes the place of the number.',
  },
  limits: [
    [
      'text',
      '1600 characters',
      'title and content are cut with `…`, never the link; a longer override fails before the request',
    ],
    [
      'repeats',
      'one, where it is not known whether the message was taken',
      'the delivery fails with `ambiguous`',
    ],
  ],
  responses: [
    ['201', response(201, { sid: 'SM00000000000000000000000000000001' })],
    refused(400, 21_211, 'no phone number'),
    refused(400, 21_610, 'the recipient has response STOP'),
    refused(400, 21_614, 'no mobile phone'),
    refused(400, 21_408, 'the country is not switched on'),
    refused(400, 21_606, 'the sender is none of the account'),
    refused(400, 21_611, 'the queue of the sender is full'),
    refused(400, 21_617, 'too long'),
    refused(401, 20_003, 'the key is wrong'),
    refused(429, 20_429, 'too many requests'),
    ['500', response(500)],
    ['504', response(504)],
  ],
};
