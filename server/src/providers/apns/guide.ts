import { type Guide, response, SHORTENED } from '../shared/guide.ts';

const rejected = (status: number, reason: string, more: object = {}) =>
  [`${status} \`${reason}\``, response(status, { reason, ...more })] as const;

export const guide: Guide = {
  override: {
    into: 'the payload, the JSON object with `aps`',
    locked: ['the device token', '`apns-topic`', '`authorization`'],
    notes:
      '`apns-push-type`, `apns-priority`, `apns-expiration` and `apns-collapse-id` at its top become ' +
      'headers; `null` leaves one out.',
  },
  limits: [
    ['payload', '4096 bytes', SHORTENED],
    [
      'provider tokens',
      'one every 40 minutes, shared by all servers',
      'APNs rejects more than one in 20 minutes',
    ],
    [
      'connections',
      '4 to each of production and sandbox, with as many streams as APNs allows',
      'more pushes wait',
    ],
  ],
  responses: [
    ['200', response(200, '', { 'apns-id': '0197a3c4-5b6e-7f01-8a2b-3c4d5e6f7081' })],
    rejected(410, 'Unregistered', { timestamp: 1_782_993_600_000 }),
    rejected(410, 'ExpiredToken'),
    rejected(400, 'BadDeviceToken'),
    rejected(400, 'DeviceTokenNotForTopic'),
    rejected(400, 'BadTopic'),
    rejected(403, 'InvalidProviderToken'),
    rejected(403, 'ExpiredProviderToken'),
    rejected(413, 'PayloadTooLarge'),
    rejected(400, 'BadPriority'),
    rejected(429, 'TooManyRequests'),
    rejected(429, 'TooManyProviderTokenUpdates'),
    rejected(500, 'InternalServerError'),
    rejected(503, 'Shutdown'),
  ],
};
