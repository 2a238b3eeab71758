import { response } from '../shared/guide.ts';
import type { Rejections } from '../shared/rejections.ts';

const P8 = '-----BEGIN PRIVATE KEY-----\nMIGTAgEA+/\nBQ==\n-----END PRIVATE KEY-----\n';

/** The smallest and the largest config that a project can save. For tests. */
export const example = {
  minimal: {
    app_id: 'com.example',
    badge: 'unread',
    certificate: P8,
    key_id: 'ABCDEFGHIJ',
    team_id: '0123456789',
  },
  full: {
    app_id: 'com.example.my-app',
    badge: 'unseen',
    certificate: P8.trim(),
    key_id: 'ABCDEFGHIJ',
    team_id: '0123456789',
    payload_version: '2',
  },
};

export const rejections: Rejections = [
  ...['InvalidProviderToken', 'MissingProviderToken', 'Forbidden', 'UnrelatedKeyIdInToken'].map(
    (reason) => [reason, response(403, { reason }), 'integration'] as const,
  ),
  ...['BadTopic', 'MissingTopic', 'TopicDisallowed'].map(
    (reason) => [reason, response(400, { reason }), 'destination'] as const,
  ),
  ...['BadCertificateEnvironment', 'BadEnvironmentKeyIdInToken'].map(
    (reason) => [reason, response(403, { reason }), 'destination'] as const,
  ),
  ...['BadDeviceToken', 'DeviceTokenNotForTopic'].map(
    (reason) => [reason, response(400, { reason }), 'destination'] as const,
  ),
  ['TooManyRequests', response(429, { reason: 'TooManyRequests' }), 'vendor'],
];
