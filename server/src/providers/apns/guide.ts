import { type Guide, response, SHORTENED } from '../shared/guide.ts';

const refused = (status: number, reason: string, more: object = {}) =>
  [`${status} \`${reason}\``, response(status, { reason, ...more })] as const;

export const guide: Guide = {
  override: {
    into: 'the payload, the JSON object with `aps`',
    locked: ['the device token', '`apns-topic`', '`authorization`'],
    notes:
      '`apns-push-type`, `apns-priority`, `apns-expiration` and `apns-collapse-id` at its top become headers; ' +
      '`null` leaves one out.',
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
    refused(410, 'Unregistered', { timestamp: 1_782_993_600_000 }),
    refused(410, 'ExpiredToken'),
    refused(400, 'BadDeviceToken'),
    refused(400, 'DeviceTokenNotForTopic'),
    refused(400, 'BadTopic'),
    refused(403, 'InvalidProviderToken'),
    refused(403, 'ExpiredProviderToken'),
    refused(413, 'PayloadTooLarge'),
    refused(400, 'BadPriority'),
    refused(429, 'TooManyRequests'),
    refused(429, 'TooManyProviderTokenUpdates'),
    refused(500, 'InternalServerError'),
    refused(503, 'Shutdown'),
  ],
};
