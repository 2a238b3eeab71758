import { type Guide, response, SHORTENED } from '../shared/guide.ts';

const ticket = (error: string) =>
  [
    `a ticket of \`${error}\``,
    response(200, { data: [{ status: 'error', message: error, details: { error } }] }),
  ] as const;
const rejected = (status: number, code: string) =>
  [`${status} \`${code}\``, response(status, { errors: [{ code, message: code }] })] as const;

export const guide: Guide = {
  override: { into: 'the message', locked: ['`to`'] },
  buildsMessage: true,
  limits: [
    ['message without its token', '4096 bytes', SHORTENED],
    ['messages in one request', '100, gathered for 50 ms at most', 'the others go with the next request'],
    ['requests at once', '6', 'more wait'],
    [
      'projects in one request',
      '1',
      'Expo lists the projects and each is sent separately; an invalid message is found by halving',
    ],
  ],
  responses: [
    [
      'a ticket of `ok`',
      response(200, { data: [{ status: 'ok', id: '0197a3c4-5b6e-7f01-8a2b-3c4d5e6f7081' }] }),
    ],
    ticket('DeviceNotRegistered'),
    ticket('InvalidCredentials'),
    ticket('MismatchSenderId'),
    ticket('MessageTooBig'),
    ticket('MessageRateExceeded'),
    ticket('DeveloperError'),
    ticket('ExpoError'),
    ticket('ProviderError'),
    rejected(401, 'UNAUTHORIZED'),
    rejected(400, 'VALIDATION_ERROR'),
    rejected(429, 'TOO_MANY_REQUESTS'),
  ],
};
