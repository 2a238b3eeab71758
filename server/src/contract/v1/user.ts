import { type Static, Type } from 'typebox';
import {
  EmailAddress,
  ExternalId,
  exampleId,
  FreeObject,
  given,
  Id,
  nullable,
  oneOf,
  PhoneNumber,
  storedString,
} from '../common.ts';
import { ImportUsers } from '../user-import.ts';
import { perPage } from './pages.ts';

/** More than version 2 accepts. */
export const PhoneNumbers = Type.Array(PhoneNumber, { maxItems: 50 });

const UserMembers = Type.Object(
  {
    external_id: Type.Optional(nullable(ExternalId)),
    email: Type.Optional(nullable(EmailAddress)),
    first_name: Type.Optional(nullable(storedString({ maxLength: 255 }))),
    last_name: Type.Optional(nullable(storedString({ maxLength: 255 }))),
    custom_attributes: Type.Optional(nullable(FreeObject)),
    phone_numbers: Type.Optional(PhoneNumbers),
  },
  { title: 'UserMembers', additionalProperties: false },
);

/** The body of `POST /users`. */
export const CreateLegacyUser = Type.Object(
  {
    user: Type.Unsafe<Static<typeof UserMembers>>({
      allOf: [UserMembers],
      anyOf: [given('external_id'), given('email')],
      'x-problem': 'must have an external id or an email so the user can be identified',
    }),
  },
  {
    title: 'UserCreation',
    additionalProperties: false,
    examples: [{ user: { external_id: '42', email: 'ada@example.com', first_name: 'Ada' } }],
  },
);

/** The body of `PUT /users/{user_id}`. */
export const UpdateLegacyUser = Type.Object(
  { user: UserMembers },
  {
    title: 'UserUpdate',
    additionalProperties: false,
    examples: [{ user: { external_id: '43', last_name: 'Lovelace' } }],
  },
);

const LegacyUser = Type.Object(
  {
    id: Id,
    external_id: nullable(Type.String()),
    email: nullable(Type.String()),
    first_name: nullable(Type.String()),
    last_name: nullable(Type.String()),
    custom_attributes: FreeObject,
    phone_numbers: Type.Array(Type.String()),
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
      },
    ],
  },
);

export const WrappedUser = Type.Object({ user: LegacyUser }, { title: 'WrappedUser' });

export const LegacyUserPage = Type.Object(
  { current_page: Type.Integer(), per_page: Type.Integer(), users: Type.Array(LegacyUser) },
  { title: 'UserPage' },
);

const USER_ORDERS = [
  'created_at,ASC',
  'created_at,DESC',
  'last_seen_at,ASC',
  'last_seen_at,DESC',
  'last_notified_at,ASC',
  'last_notified_at,DESC',
] as const;

const bound = (description: string) =>
  Type.Optional(Type.String({ format: 'date-time', description: `Only users that were ${description}.` }));

export const LegacyUserQuery = Type.Object({
  page: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 1_000_000,
      default: 1,
      description: 'The number of the page. One beyond the end is empty.',
    }),
  ),
  per_page: perPage(20),
  'last_seen_at:before': bound('last seen before this time'),
  'last_seen_at:after': bound('last seen after this time'),
  'last_notified_at:before': bound('last notified before this time'),
  'last_notified_at:after': bound('last notified after this time'),
  order_by: Type.Optional(
    oneOf(USER_ORDERS, {
      description: 'The order; `created_at,DESC` if omitted. Users without a time are last.',
    }),
  ),
});
export type LegacyUserQuery = Static<typeof LegacyUserQuery>;

/** The body of `POST /imports`. */
export const CreateLegacyImport = Type.Object(
  { import: ImportUsers },
  {
    title: 'ImportInput',
    additionalProperties: false,
    examples: [{ import: { users: [{ external_id: '42', first_name: 'Ada' }] } }],
  },
);

const named = {
  external_id: Type.Optional(Type.String()),
  email: Type.Optional(Type.String()),
};

const LegacyImport = Type.Object(
  {
    id: Id,
    status: oneOf(['enqueued', 'processing', 'processed']),
    summary: Type.Object({
      total: Type.Integer({ description: 'The number of users in the body.' }),
      failures: Type.Integer({ description: 'The number of users that failed so far.' }),
    }),
    errors: Type.Array(Type.Object({ ...named, message: Type.String() }), {
      description: 'The same as `failures`, with the problems as one text.',
    }),
    failures: Type.Object(
      {
        users: Type.Array(
          Type.Object({
            ...named,
            errors: Type.Unsafe<Record<string, string[]>>({
              ...FreeObject,
              description: 'The problems of each member; `base` has those of the whole user.',
            }),
          }),
        ),
      },
      { description: 'One entry for each user that failed so far.' },
    ),
  },
  {
    title: 'Import',
    examples: [
      {
        id: exampleId,
        status: 'processed',
        summary: { total: 2, failures: 1 },
        errors: [{ email: 'ada@', message: "Param 'email' must be an e-mail address" }],
        failures: { users: [{ email: 'ada@', errors: { email: ['must be an e-mail address'] } }] },
      },
    ],
  },
);
export type LegacyImport = Static<typeof LegacyImport>;

export const WrappedImport = Type.Object({ import: LegacyImport }, { title: 'WrappedImport' });
