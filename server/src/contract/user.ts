import { type Static, Type } from 'typebox';
import {
  EmailAddress,
  ExternalId,
  exampleId,
  exampleTime,
  FreeObject,
  given,
  Id,
  nullable,
  PhoneNumbers,
  page,
  pageQuery,
  readOnly,
  storedString,
  Timestamp,
} from './common.ts';

const members = {
  external_id: Type.Optional(nullable(ExternalId)),
  email: Type.Optional(nullable(EmailAddress)),
  first_name: Type.Optional(nullable(storedString({ maxLength: 255 }))),
  last_name: Type.Optional(nullable(storedString({ maxLength: 255 }))),
  custom_attributes: Type.Optional(nullable(FreeObject)),
  phone_numbers: Type.Optional(PhoneNumbers),
};

/** What PUT /users takes. */
export const SaveUser = Type.Object(
  {
    ...members,
    // Programs save what they have read.
    id: Type.Optional(readOnly(Id)),
    created_at: Type.Optional(readOnly(nullable(Timestamp))),
    updated_at: Type.Optional(readOnly(nullable(Timestamp))),
    last_seen_at: Type.Optional(readOnly(nullable(Timestamp))),
    last_notified_at: Type.Optional(readOnly(nullable(Timestamp))),
  },
  {
    title: 'UserInput',
    additionalProperties: false,
    anyOf: [given('external_id'), given('email')],
    'x-problem': 'needs an external_id or an email',
    examples: [
      { external_id: '42', email: 'ada@example.com', first_name: 'Ada', custom_attributes: { plan: 'pro' } },
    ],
    description:
      'A member that is given replaces what is stored, an absent one stays, `null` clears. The user is the one with this external_id, else the one with this email, else a new one.',
  },
);
export type SaveUser = Static<typeof SaveUser>;

export const User = Type.Object(
  {
    id: Id,
    external_id: nullable(Type.String()),
    email: nullable(Type.String()),
    first_name: nullable(Type.String()),
    last_name: nullable(Type.String()),
    custom_attributes: nullable(FreeObject),
    phone_numbers: Type.Array(Type.String()),
    created_at: Timestamp,
    updated_at: Timestamp,
    last_seen_at: nullable(Timestamp),
    last_notified_at: nullable(Timestamp),
  },
  {
    title: 'User',
    examples: [
      {
        id: exampleId,
        external_id: '42',
        email: 'ada@example.com',
        first_name: 'Ada',
        last_name: null,
        custom_attributes: { plan: 'pro' },
        phone_numbers: ['+15005550001'],
        created_at: exampleTime,
        updated_at: exampleTime,
        last_seen_at: null,
        last_notified_at: null,
      },
    ],
  },
);

export const UserPage = page(User);

export const UserListQuery = Type.Object({
  ...pageQuery,
  query: Type.Optional(
    storedString({
      maxLength: 255,
      description:
        'Only users whose external_id (as it is written) or e-mail address (in whatever case) is this, or begins with it. Of more than ' +
        'a thousand such external_ids or addresses, the first in alphabetical order: ask for more of it.',
    }),
  ),
});
