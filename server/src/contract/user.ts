import { type Static, Type } from 'typebox';
import {
  EmailAddress,
  ExternalId,
  exampleId,
  exampleTime,
  FreeObject,
  given,
  Id,
  Locale,
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
  locale: Type.Optional(nullable(Locale)),
  custom_attributes: Type.Optional(nullable(FreeObject)),
  phone_numbers: Type.Optional(PhoneNumbers),
};

// Programs save what they read.
const readOnlyMembers = {
  id: Type.Optional(readOnly(Id)),
  created_at: Type.Optional(readOnly(nullable(Timestamp))),
  updated_at: Type.Optional(readOnly(nullable(Timestamp))),
  last_seen_at: Type.Optional(readOnly(nullable(Timestamp))),
  last_notified_at: Type.Optional(readOnly(nullable(Timestamp))),
};

/** The body of `PUT /users`. */
export const SaveUser = Type.Object(
  { ...members, ...readOnlyMembers },
  {
    title: 'UserInput',
    additionalProperties: false,
    anyOf: [given('external_id'), given('email')],
    'x-problem': 'needs an external_id or an email',
    examples: [
      { external_id: '42', email: 'ada@example.com', first_name: 'Ada', custom_attributes: { plan: 'pro' } },
    ],
    description:
      'The user with this `external_id`, or else with this `email`, or else a new one. Members in the body ' +
      'replace stored values, missing members stay, and `null` clears.',
  },
);
export type SaveUser = Static<typeof SaveUser>;

/** The body of `PATCH /users/{user_id}`. */
export const UpdateUser = Type.Object(
  { ...members, ...readOnlyMembers },
  {
    title: 'UserUpdate',
    additionalProperties: false,
    examples: [{ external_id: '43', first_name: 'Ada' }],
    description: 'Members in the body replace stored values, missing members stay, and `null` clears.',
  },
);

export const User = Type.Object(
  {
    id: Id,
    external_id: nullable(Type.String()),
    email: nullable(Type.String()),
    first_name: nullable(Type.String()),
    last_name: nullable(Type.String()),
    locale: nullable(Type.String()),
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
        locale: 'en-GB',
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

const UserReference = Type.String({
  format: 'user-reference',
  'x-problem': 'must be a UUID, external_id:<id> or email:<address>',
  examples: [exampleId],
  description: 'The user: its `id`, `external_id:<id>` or `email:<address>`.',
});

export const UserInPath = Type.Object({ user_id: UserReference });

export const UserPage = page(User);

export const UserListQuery = Type.Object({
  ...pageQuery,
  query: Type.Optional(
    storedString({
      maxLength: 255,
      description:
        'Only users whose `external_id` (with the same case), e-mail address or name (in any case) begins ' +
        'with this. The name is the whole name or one of the first three words of the first or last name. ' +
        'Of more than 500 matches of a kind, the first in alphabetical order are found.',
    }),
  ),
});
