import { type Guide, response, TOO_BIG } from '../shared/guide.ts';

const rejected = (status: number, type: string, message = type) =>
  [
    `${status} \`${type}\`${message === type ? '' : ` “${message}”`}`,
    response(status, { message }, { 'x-amzn-errortype': type }),
  ] as const;

export const guide: Guide = {
  override: {
    into: 'the body of `SendEmail`, API version 2',
    locked: ['`Destination.ToAddresses`', 'the tag `reference` in `EmailTags`'],
  },
  limits: [['request', '40 MB', TOO_BIG]],
  responses: [
    ['200', response(200, { MessageId: '0100' })],
    rejected(400, 'BadRequestException', "Missing final '@domain'"),
    rejected(400, 'BadRequestException'),
    rejected(400, 'MessageRejected', 'Email address is not verified'),
    rejected(400, 'MessageRejected'),
    rejected(400, 'MailFromDomainNotVerifiedException'),
    rejected(400, 'AccountSuspendedException'),
    rejected(400, 'SendingPausedException'),
    rejected(404, 'NotFoundException'),
    rejected(403, 'SignatureDoesNotMatch'),
    rejected(403, 'AccessDeniedException'),
    rejected(429, 'TooManyRequestsException', 'Maximum sending rate exceeded.'),
    rejected(429, 'TooManyRequestsException', 'Daily message quota exceeded.'),
    rejected(400, 'ThrottlingException'),
    rejected(500, 'InternalServiceErrorException'),
  ],
};
