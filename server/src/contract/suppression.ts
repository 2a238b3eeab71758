import { type Static, Type } from 'typebox';
import {
  described,
  exampleId,
  exampleTime,
  Id,
  nullable,
  oneOf,
  PhoneNumber,
  page,
  pageQuery,
  readOnly,
  storedString,
  Timestamp,
} from './common.ts';

/** The kinds of addresses. */
export const SUPPRESSION_KINDS = ['email', 'phone'] as const;
export type SuppressionKind = (typeof SUPPRESSION_KINDS)[number];

/** Why an address is suppressed, weakest first. A stronger reason replaces a weaker one. */
export const SUPPRESSION_REASONS = ['manual', 'rejected', 'bounced', 'unsubscribed', 'complained'] as const;
export type SuppressionReason = (typeof SUPPRESSION_REASONS)[number];

const MAX_NOTE_CHARACTERS = 1_000;

const kind = oneOf(SUPPRESSION_KINDS, { title: 'SuppressionKind' });
const reason = oneOf(SUPPRESSION_REASONS, {
  title: 'SuppressionReason',
  description:
    '`manual`: by a request. `rejected`: a provider rejected the address. `bounced`: a message bounced. ' +
    '`unsubscribed`: the recipient unsubscribed at the provider. `complained`: the recipient marked a ' +
    'message as spam. If there are several, the last one in this order.',
});
const email = Type.Unsafe<string | null>({
  type: ['string', 'null'],
  format: 'email',
  description: 'An e-mail address. Case does not matter.',
});
const phoneNumber = nullable(PhoneNumber);
const note = nullable(
  storedString({
    maxLength: MAX_NOTE_CHARACTERS,
    description: 'A note of your own.',
    examples: ['asked us by phone'],
  }),
);

/** Requires this member and excludes the other. */
const only = (name: string, other: string) =>
  Type.Object({
    [name]: Type.Unsafe<string>({ not: { type: 'null' } }),
    [other]: Type.Optional(Type.Null()),
  });

/** The body of `PUT /suppressions`. */
export const SaveSuppression = Type.Object(
  {
    email: Type.Optional(email),
    phone_number: Type.Optional(phoneNumber),
    reason: Type.Optional(reason),
    note: Type.Optional(note),
    // Programs save what they read.
    id: Type.Optional(readOnly(Id)),
    kind: Type.Optional(readOnly(kind)),
    provider: Type.Optional(readOnly(nullable(Type.String()))),
    detail: Type.Optional(readOnly(nullable(Type.String()))),
    created_at: Type.Optional(readOnly(Timestamp)),
    updated_at: Type.Optional(readOnly(Timestamp)),
  },
  {
    title: 'SuppressionInput',
    additionalProperties: false,
    anyOf: [only('email', 'phone_number'), only('phone_number', 'email')],
    'x-problem': 'needs either an email or a phone_number',
    description:
      'The reason is `manual` if omitted. A stronger stored reason stays. A note replaces the stored one, ' +
      '`null` clears it.',
    examples: [{ email: 'ada@example.com', note: 'asked us by phone' }],
  },
);
export type SaveSuppression = Static<typeof SaveSuppression>;

/** An address that gets no messages. */
export const Suppression = Type.Object(
  {
    id: Id,
    kind,
    email: nullable(
      Type.String({
        description: 'In lower case. `null` for a phone number, and after the data of its user was erased.',
      }),
    ),
    phone_number: nullable(
      Type.String({
        description:
          'Without spaces. `null` for an e-mail address, and after the data of its user was erased.',
      }),
    ),
    reason,
    provider: nullable(
      Type.String({ description: 'The provider that reported it; `null` if it came by a request.' }),
    ),
    detail: nullable(Type.String({ description: 'What the provider reported.' })),
    note,
    created_at: Timestamp,
    updated_at: Timestamp,
  },
  {
    title: 'Suppression',
    examples: [
      {
        id: exampleId,
        kind: 'email',
        email: 'ada@example.com',
        phone_number: null,
        reason: 'bounced',
        provider: 'ses',
        detail: '550 5.1.1 user unknown',
        note: null,
        created_at: exampleTime,
        updated_at: exampleTime,
      },
    ],
  },
);
export type Suppression = Static<typeof Suppression>;

export const SuppressionPage = page(Suppression);

export const SuppressionListQuery = Type.Object({
  ...pageQuery,
  kind: Type.Optional(described(kind, 'Only addresses of this kind.')),
  reason: Type.Optional(described(reason, 'Only suppressions with this reason.')),
  query: Type.Optional(
    storedString({
      maxLength: 320,
      description:
        'Only this e-mail address or phone number in international form. It is also found after the record ' +
        'stopped showing it.',
    }),
  ),
});
export type SuppressionListQuery = Static<typeof SuppressionListQuery>;
