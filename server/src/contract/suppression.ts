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

/** What kinds of addresses there are. */
export const SUPPRESSION_KINDS = ['email', 'phone'] as const;
export type SuppressionKind = (typeof SUPPRESSION_KINDS)[number];

/**
 * Why nothing is sent to an address, the weakest first: a stronger reason takes the place of a weaker one.
 */
export const SUPPRESSION_REASONS = ['manual', 'rejected', 'bounced', 'unsubscribed', 'complained'] as const;
export type SuppressionReason = (typeof SUPPRESSION_REASONS)[number];

const MAX_NOTE_CHARACTERS = 1_000;

const kind = oneOf(SUPPRESSION_KINDS, { title: 'SuppressionKind' });
const reason = oneOf(SUPPRESSION_REASONS, {
  title: 'SuppressionReason',
  description:
    '`manual`: by a request. `rejected`: the provider does not take the address. `bounced`: what was sent came back. ' +
    '`unsubscribed`: the recipient told the provider to stop. `complained`: the recipient called it spam. ' +
    'Of several the last in this order.',
});
const email = Type.Unsafe<string | null>({
  type: ['string', 'null'],
  format: 'email',
  description: 'An e-mail address, in whatever case.',
});
const phoneNumber = nullable(PhoneNumber);
const note = nullable(
  storedString({
    maxLength: MAX_NOTE_CHARACTERS,
    description: 'What you want to remember about it.',
    examples: ['asked us by phone'],
  }),
);

/** This member is given, and not the other. */
const only = (name: string, other: string) =>
  Type.Object({
    [name]: Type.Unsafe<string>({ not: { type: 'null' } }),
    [other]: Type.Optional(Type.Null()),
  });

/** What PUT /suppressions takes. */
export const SaveSuppression = Type.Object(
  {
    email: Type.Optional(email),
    phone_number: Type.Optional(phoneNumber),
    reason: Type.Optional(reason),
    note: Type.Optional(note),
    // Programs save what they have read.
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
      'The reason is `manual` unless it says otherwise; a stronger one that is stored stays. A note that is given replaces the stored one, ' +
      'an absent one stays, `null` clears.',
    examples: [{ email: 'ada@example.com', note: 'asked us by phone' }],
  },
);
export type SaveSuppression = Static<typeof SaveSuppression>;

/** An address that nothing is sent to. */
export const Suppression = Type.Object(
  {
    id: Id,
    kind,
    email: nullable(
      Type.String({
        description:
          'Lower case; `null` for a phone number, and when all that is known of its user was erased.',
      }),
    ),
    phone_number: nullable(
      Type.String({
        description:
          'Without spaces; `null` for an e-mail address, and when all that is known of its user was erased.',
      }),
    ),
    reason,
    provider: nullable(Type.String({ description: 'Who said so; `null` where a request did.' })),
    detail: nullable(Type.String({ description: 'What the provider said.' })),
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
  reason: Type.Optional(described(reason, 'Only those with this reason.')),
  query: Type.Optional(
    storedString({
      maxLength: 320,
      description:
        'Only this address, which is an e-mail address in whatever case, or a phone number in international form. It is found also when ' +
        'the record does not show it any more.',
    }),
  ),
});
export type SuppressionListQuery = Static<typeof SuppressionListQuery>;
