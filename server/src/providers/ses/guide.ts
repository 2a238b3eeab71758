import { type Guide, response, TOO_BIG } from '../shared/guide.ts';

const refused = (status: number, type: string, message = type) =>
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
    refused(400, 'BadRequestException', "Missing final '@domain'"),
    refused(400, 'BadRequestException'),
    refused(400, 'MessageRejected', 'Email address is not verified'),
    refused(400, 'MessageRejected'),
    refused(400, 'MailFromDomainNotVerifiedException'),
    refused(400, 'AccountSuspendedException'),
    refused(400, 'SendingPausedException'),
    refused(404, 'NotFoundException'),
    refused(403, 'SignatureDoesNotMatch'),
    refused(403, 'AccessDeniedException'),
    refused(429, 'TooManyRequestsException', 'Maximum sending rate exceeded.'),
    refused(429, 'TooManyRequestsException', 'Daily message quota exceeded.'),
    refused(400, 'ThrottlingException'),
    refused(500, 'InternalServiceErrorException'),
  ],
};
