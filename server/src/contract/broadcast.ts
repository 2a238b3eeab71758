import { type Static, Type } from 'typebox';
import { overrideKeys } from '../providers/index.ts';
import {
  EmailAddress,
  ExternalId,
  exampleId,
  exampleTime,
  FreeObject,
  given,
  Id,
  nullable,
  oneOf,
  PhoneNumbers,
  readOnly,
  storedString,
  Timestamp,
} from './common.ts';

// The shapes of a broadcast, from the contract's tables "Broadcast" and "overrides". Lengths count
// characters, as JSON Schema does.

const label = () => Type.String({ maxLength: 255, pattern: '^[A-Za-z0-9_\\.\\-/:]+$' });

const freeObject = (description: string) => ({ ...FreeObject, description });

const NamedRecipient = Type.Object(
  {
    external_id: Type.Optional(nullable(ExternalId)),
    email: Type.Optional(nullable(EmailAddress)),
    first_name: Type.Optional(nullable(storedString({ maxLength: 255 }))),
    last_name: Type.Optional(nullable(storedString({ maxLength: 255 }))),
    custom_attributes: Type.Optional(nullable(freeObject('Anything you want to keep about the user.'))),
    phone_numbers: Type.Optional(PhoneNumbers),
  },
  {
    title: 'UserRecipient',
    additionalProperties: false,
    anyOf: [given('external_id'), given('email')],
    'x-problem': 'must have external_id or email',
    description:
      'A user, named by external_id or email; `null` for one of them says nothing. Who is not known yet is created; members that are given replace what is stored.',
  },
);

const TopicSubscribers = Type.Object(
  { topic: Type.Object({ subscribers: Type.Literal(true) }, { additionalProperties: false }) },
  {
    title: 'TopicRecipients',
    additionalProperties: false,
    description:
      "Everybody who is subscribed to the broadcast's `topic` and, within it, to its category. Who is named besides gets one notification all the same; " +
      'and who is named gets it, subscribed or not.',
  },
);

// In this order: nearly all are named, and then the other is not looked at.
const RecipientSchema = Type.Union([NamedRecipient, TopicSubscribers], { title: 'Recipient' });

const ChannelOverride = Type.Object(
  {
    title: Type.Optional(Type.String({ minLength: 1, maxLength: 255 })),
    content: Type.Optional(Type.String({ maxLength: 1_048_576 })),
    action_url: Type.Optional(nullable(Type.String({ maxLength: 2048 }))),
  },
  { title: 'ChannelOverride', additionalProperties: false },
);

const providerOverride = () => freeObject("Merged into the provider's own payload.");

const OverridesSchema = Type.Object(
  {
    channels: Type.Optional(
      Type.Object(
        {
          in_app: Type.Optional(ChannelOverride),
          mobile_push: Type.Optional(ChannelOverride),
          email: Type.Optional(ChannelOverride),
          sms: Type.Optional(ChannelOverride),
          web_push: Type.Optional(ChannelOverride),
          slack: Type.Optional(ChannelOverride),
          teams: Type.Optional(ChannelOverride),
        },
        { title: 'ChannelOverrides', additionalProperties: false, description: 'Other texts for a channel.' },
      ),
    ),
    providers: Type.Optional(
      Type.Object(Object.fromEntries(overrideKeys.map((key) => [key, Type.Optional(providerOverride())])), {
        title: 'ProviderOverrides',
        additionalProperties: false,
      }),
    ),
  },
  { title: 'BroadcastOverrides', additionalProperties: false },
);

const members = {
  title: Type.String({
    minLength: 1,
    maxLength: 255,
    description: 'What the notification says first; the subject of an e-mail.',
  }),
  content: Type.Optional(
    nullable(
      Type.String({
        maxLength: 10_485_760,
        description: 'The text; HTML is rendered by the inbox and in e-mails.',
      }),
    ),
  ),
  action_url: Type.Optional(nullable(Type.String({ maxLength: 2048, description: 'Where a click leads.' }))),
  category: Type.Optional(nullable(label())),
  topic: Type.Optional(nullable(label())),
  custom_attributes: Type.Optional(nullable(freeObject('Handed through to the clients as it is.'))),
  recipients: nullable(Type.Array(RecipientSchema, { minItems: 1, maxItems: 1000 })),
  overrides: Type.Optional(nullable(OverridesSchema)),
};

/** The counts of a broadcast. */
export const BroadcastSummary = Type.Object(
  {
    failures: Type.Integer({
      description:
        'Recipients that could not be used, and users whom at least one channel has failed to reach for good, so far.',
    }),
    total: Type.Integer({
      description:
        'Users addressed so far, each counted once, and recipients that could not be used. Subscribers of a topic are counted as their turn comes, until the broadcast is `processed`.',
    }),
    pending: Type.Integer({
      description:
        'Deliveries that have not ended yet, on all channels together: not attempted, retried, deferred, or scheduled for later. Counted from when the broadcast is `processing`.',
    }),
  },
  { title: 'BroadcastSummary' },
);

const BroadcastStatusSchema = Type.Object(
  {
    status: oneOf(['enqueued', 'processing', 'processed'], {
      description:
        '`processed`: every delivery that was due immediately has had its first attempt, or was deferred. Retries, deferred and scheduled deliveries continue after that; `summary` and `errors` are correct at any time.',
    }),
    summary: BroadcastSummary,
    errors: nullable(
      Type.Array(Type.Object({ message: Type.String() }, { title: 'BroadcastError' }), {
        description:
          'Unusable recipients, then the deliveries that have failed for good so far; at most 1000 of those.',
      }),
    ),
  },
  { title: 'BroadcastStatus' },
);

const example = {
  title: 'Your order is on its way',
  content: 'It arrives <b>tomorrow</b>.',
  action_url: 'https://shop.example/orders/1042',
  category: 'orders',
  recipients: [{ external_id: '42', email: 'ada@example.com', first_name: 'Ada' }],
};

/** What POST /broadcasts takes. What the answer has beyond it may come back with a copy, and is ignored. */
export const NewBroadcastSchema = Type.Object(
  {
    ...members,
    id: Type.Optional(readOnly(Id)),
    created_at: Type.Optional(readOnly(Timestamp)),
    status: Type.Optional(readOnly(BroadcastStatusSchema)),
  },
  {
    title: 'BroadcastInput',
    additionalProperties: false,
    examples: [example],
  },
);

/** A broadcast as the API answers it. */
export const BroadcastSchema = Type.Object(
  {
    id: Id,
    title: Type.String(),
    content: nullable(Type.String()),
    action_url: nullable(Type.String()),
    category: nullable(Type.String()),
    topic: nullable(Type.String()),
    custom_attributes: nullable(freeObject('As given.')),
    recipients: nullable(Type.Array(RecipientSchema)),
    overrides: nullable(OverridesSchema),
    created_at: Timestamp,
    status: BroadcastStatusSchema,
  },
  {
    title: 'Broadcast',
    examples: [
      {
        ...example,
        id: exampleId,
        topic: null,
        custom_attributes: null,
        overrides: null,
        created_at: exampleTime,
        status: { status: 'processed', summary: { total: 1, failures: 0, pending: 0 }, errors: null },
      },
    ],
  },
);

export type Recipient = Static<typeof RecipientSchema>;
export type NamedRecipient = Static<typeof NamedRecipient>;

/** Whether a recipient stands for the subscribers of the broadcast's topic. */
export function isSubscribers(recipient: Recipient): recipient is Static<typeof TopicSubscribers> {
  return 'topic' in recipient;
}
export type NewBroadcast = Static<typeof NewBroadcastSchema>;
