import { response } from '../shared/guide.ts';
import type { Rejections } from '../shared/rejections.ts';

const mailbox = { email: 'a@b.de', name: null };

/** The smallest and the largest config that a project can save. For tests. */
export const example = {
  minimal: { key_id: 'k', secret_key: 's', region: 'r' },
  full: {
    key_id: 'AKIA',
    secret_key: 'hunter22',
    region: 'eu-west-1',
    from: mailbox,
    configuration_set: 'default',
    topic_arn: 'arn:aws:sns:eu-west-1:123456789012:mail',
    max_per_second: 14,
  },
};

const rejection = (status: number, type: string, message = '') =>
  response(status, { message }, { 'x-amzn-errortype': type });

export const rejections: Rejections = [
  ...[
    'SignatureDoesNotMatch',
    'InvalidClientTokenId',
    'UnrecognizedClientException',
    'ExpiredTokenException',
  ].map((type) => [type, rejection(403, type), 'integration'] as const),
  ...[
    'AccountSuspendedException',
    'MailFromDomainNotVerifiedException',
    'NotFoundException',
    'SendingPausedException',
  ].map((type) => [type, rejection(400, type), 'integration'] as const),
  ['AccessDeniedException', rejection(403, 'AccessDeniedException'), 'destination'],
  [
    'MessageRejected: not verified',
    rejection(400, 'MessageRejected', 'Email address is not verified'),
    'destination',
  ],
  ['TooManyRequestsException', rejection(429, 'TooManyRequestsException'), 'vendor'],
];
