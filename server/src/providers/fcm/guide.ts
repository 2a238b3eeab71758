import { type Guide, response, SHORTENED } from '../shared/guide.ts';
import type { FcmReply } from './message.ts';

const rejected = (status: number, name: string, errorCode?: string, details: object[] = []) => {
  const all = [...details, ...(errorCode === undefined ? [] : [{ errorCode }])];
  const names = [name, ...(errorCode === undefined ? [] : [errorCode])];
  const description = names.map((word) => `\`${word}\``).join(' ');
  const body = { error: { code: status, message: name, status: name, details: all } };
  return [`${status} ${description}`, response(status, body)] as const;
};

export const guide: Guide<FcmReply> = {
  override: {
    into: 'the `message` of the request, in snake_case or camelCase',
    locked: ['`token`', '`topic`', '`condition`'],
    notes:
      'Values in `data` become strings, objects their JSON. FCM rejects reserved names (`from`, ' +
      '`message_type`, `google.…`, `gcm.…`).',
  },
  limits: [
    ['message without its token', '4096 bytes', SHORTENED],
    ['time to live', '28 days', 'capped at 28 days'],
    ['connections', '4, with as many streams as FCM allows', 'more pushes wait'],
  ],
  responses: [
    ['200', response(200, { name: 'projects/example/messages/0:1' })],
    rejected(404, 'NOT_FOUND', 'UNREGISTERED'),
    rejected(403, 'PERMISSION_DENIED', 'SENDER_ID_MISMATCH'),
    [
      '400 `INVALID_ARGUMENT` of `message.token`',
      response(400, {
        error: { status: 'INVALID_ARGUMENT', details: [{ fieldViolations: [{ field: 'message.token' }] }] },
      }),
    ],
    rejected(400, 'INVALID_ARGUMENT', 'INVALID_ARGUMENT'),
    rejected(401, 'UNAUTHENTICATED'),
    rejected(401, 'UNAUTHENTICATED', 'THIRD_PARTY_AUTH_ERROR'),
    rejected(403, 'PERMISSION_DENIED'),
    rejected(404, 'NOT_FOUND'),
    rejected(429, 'RESOURCE_EXHAUSTED', 'QUOTA_EXCEEDED'),
    rejected(500, 'INTERNAL', 'INTERNAL'),
    rejected(503, 'UNAVAILABLE', 'UNAVAILABLE'),
    [
      '400 `invalid_grant` from Google’s token endpoint',
      { ...response(400, { error: 'invalid_grant' }), of: 'token' },
    ],
  ],
};
