import { type Static, type TSchema, Type } from 'typebox';
import { overrideKeys } from '../providers/index.ts';
import {
  described,
  EmailAddress,
  ExternalId,
  exampleId,
  exampleTime,
  FreeObject,
  given,
  Id,
  Locale,
  nullable,
  oneOf,
  PhoneNumbers,
  pageQuery,
  readOnly,
  storedString,
  Timestamp,
} from './common.ts';
import { TemplateKey } from './template-key.ts';

// A broadcast as in the tables "Broadcast" and "overrides" of the contract. Lengths count characters.

const label = () => Type.String({ maxLength: 255, pattern: '^[A-Za-z0-9_\\.\\-/:]+$' });

const freeObject = (description: string) => ({ ...FreeObject, description });

/** A user as a recipient. Version 1 accepts more phone numbers. */
export const namedRecipient = <Numbers extends TSchema>(phoneNumbers: Numbers) =>
  Type.Object(
    {
      external_id: Type.Optional(nullable(ExternalId)),
      email: Type.Optional(nullable(EmailAddress)),
      first_name: Type.Optional(nullable(storedString({ maxLength: 255 }))),
      last_name: Type.Optional(nullable(storedString({ maxLength: 255 }))),
      locale: Type.Optional(nullable(Locale)),
      custom_attributes: Type.Optional(nullable(freeObject('Data of your own about the user.'))),
      phone_numbers: Type.Optional(phoneNumbers),
    },
    {
      title: 'UserRecipient',
      additionalProperties: false,
      anyOf: [given('external_id'), given('email')],
      'x-problem': 'must have external_id or email',
      description:
        'A user with this `external_id`, or else with this `email`. A user that does not exist is created. ' +
        'Other members replace stored values.',
    },
  );
export const NamedRecipient = namedRecipient(PhoneNumbers);

export const TopicSubscribers = Type.Object(
  { topic: Type.Object({ subscribers: Type.Literal(true) }, { additionalProperties: false }) },
  {
    title: 'TopicRecipients',
    additionalProperties: false,
    description:
      'All users who are subscribed to the `topic` of the broadcast and to its category. Users that are ' +
      'also named as recipients get one notification, subscribed or not.',
  },
);

export const AllUsers = Type.Object(
  { matches: Type.Literal('*') },
  {
    title: 'AllUsers',
    additionalProperties: false,
    description: 'All users of the project. Only version 1 of the API accepts it.',
  },
);

// Nearly all recipients are users, so this form is tried first.
const RecipientSchema = Type.Union([NamedRecipient, TopicSubscribers], { title: 'Recipient' });

const ChannelOverride = Type.Object(
  {
    title: Type.Optional(Type.String({ minLength: 1, maxLength: 255 })),
    content: Type.Optional(Type.String({ maxLength: 1_048_576 })),
    action_url: Type.Optional(nullable(Type.String({ maxLength: 2048 }))),
  },
  { title: 'ChannelOverride', additionalProperties: false },
);

const providerOverride = () => freeObject('Merged into the request to this provider.');

export const ChannelOverrides = Type.Object(
  {
    in_app: Type.Optional(ChannelOverride),
    mobile_push: Type.Optional(ChannelOverride),
    email: Type.Optional(ChannelOverride),
    sms: Type.Optional(ChannelOverride),
    web_push: Type.Optional(ChannelOverride),
    slack: Type.Optional(ChannelOverride),
    teams: Type.Optional(ChannelOverride),
  },
  {
    title: 'ChannelOverrides',
    additionalProperties: false,
    description: 'Texts for single channels, instead of those of the broadcast.',
  },
);

export const ProviderOverrides = Type.Object(
  Object.fromEntries(overrideKeys.map((key) => [key, Type.Optional(providerOverride())])),
  { title: 'ProviderOverrides', additionalProperties: false },
);

const OverridesSchema = Type.Object(
  { channels: Type.Optional(ChannelOverrides), providers: Type.Optional(ProviderOverrides) },
  { title: 'BroadcastOverrides', additionalProperties: false },
);

const templateData = nullable(freeObject('What its texts read as `data`, up to 256 KiB of JSON.'));
const templateVersions = {
  version: Type.Integer({ description: 'The version that was the newest when the broadcast was accepted.' }),
  uses: Type.Unsafe<Record<string, number>>({
    type: 'object',
    additionalProperties: { type: 'integer' },
    description: 'The versions of its layout and of all partials, by key.',
  }),
};

/** The template that a broadcast names. */
const TemplateOfBroadcast = Type.Object(
  {
    key: described(TemplateKey, 'The key of a template of the kind `message`.'),
    data: Type.Optional(templateData),
    version: Type.Optional(readOnly(templateVersions.version)),
    uses: Type.Optional(readOnly(templateVersions.uses)),
  },
  {
    title: 'BroadcastTemplate',
    additionalProperties: false,
    description:
      'The template of the texts, instead of `title`, `content`, `action_url` and the overrides of ' +
      'channels. The texts are made for each user, in the language of the user.',
  },
);

/** The same in responses. */
const SentTemplate = Type.Object(
  { key: Type.String(), data: templateData, ...templateVersions },
  { title: 'SentTemplate' },
);

/** The members of a broadcast to send. */
export const broadcastMembers = {
  title: Type.String({
    minLength: 1,
    maxLength: 255,
    description: 'The title of the notification, and the subject of an e-mail.',
  }),
  content: Type.Optional(
    nullable(
      Type.String({
        maxLength: 10_485_760,
        description: 'The text. The inbox and e-mails render HTML.',
      }),
    ),
  ),
  action_url: Type.Optional(
    nullable(Type.String({ maxLength: 2048, description: 'The address that a click opens.' })),
  ),
  category: Type.Optional(nullable(label())),
  topic: Type.Optional(nullable(label())),
  custom_attributes: Type.Optional(nullable(freeObject('Data of your own. Clients get it unchanged.'))),
  recipients: nullable(Type.Array(RecipientSchema, { minItems: 1, maxItems: 1000 })),
  overrides: Type.Optional(nullable(OverridesSchema)),
  send_at: Type.Optional(
    nullable(
      Type.String({
        format: 'date-time',
        description:
          'When it is sent: up to 400 days from now. It is sent at once without a time, or with one in the ' +
          'past. Until then it can be cancelled.',
        examples: ['2026-02-28T08:00:00Z'],
      }),
    ),
  ),
};

/** The counts of a broadcast. */
export const BroadcastSummary = Type.Object(
  {
    failures: Type.Integer({
      description:
        'Recipients that could not be used, and users for whom a delivery failed on at least one channel, ' +
        'so far.',
    }),
    total: Type.Integer({
      description:
        'Users addressed so far, each counted once, and recipients that could not be used. Subscribers of ' +
        'a topic are added until the broadcast is `processed`.',
    }),
    pending: Type.Integer({
      description:
        'Deliveries on all channels that have not ended: not attempted, retried, deferred or scheduled. ' +
        'Counted from `processing` on.',
    }),
  },
  { title: 'BroadcastSummary' },
);

export const BroadcastError = Type.Object({ message: Type.String() }, { title: 'BroadcastError' });

const BroadcastStatusSchema = Type.Object(
  {
    status: oneOf(['enqueued', 'processing', 'processed'], {
      description:
        '`processed`: every delivery that was due at once has had its first attempt, or was deferred. ' +
        'Retries, deferred and scheduled deliveries continue after that. `summary` and `errors` are ' +
        'correct at any time.',
    }),
    summary: BroadcastSummary,
    errors: nullable(
      Type.Array(BroadcastError, {
        description:
          'Recipients that could not be used, then up to 1000 deliveries that failed. In a list of ' +
          'broadcasts, up to 10 deliveries of each. If there are more, the last message says so.',
      }),
    ),
  },
  { title: 'BroadcastStatus' },
);

export const exampleBroadcast = {
  title: 'Your order is on its way',
  content: 'It arrives <b>tomorrow</b>.',
  action_url: 'https://shop.example/orders/1042',
  category: 'orders',
  recipients: [{ external_id: '42', email: 'ada@example.com', first_name: 'Ada' }],
};

/** Keywords of a schema: a broadcast has a title unless it has a template. */
export const TITLE_OR_TEMPLATE = {
  anyOf: [Type.Object({ title: Type.Unknown() }), given('template')],
  'x-missing': 'title',
};

/** The body of `POST /broadcasts`. Members that only a response has are ignored. */
export const NewBroadcastSchema = Type.Object(
  {
    ...broadcastMembers,
    title: Type.Optional(
      described(broadcastMembers.title, 'The title. Required unless there is a `template`.'),
    ),
    template: Type.Optional(nullable(TemplateOfBroadcast)),
    id: Type.Optional(readOnly(Id)),
    created_at: Type.Optional(readOnly(Timestamp)),
    cancelled_at: Type.Optional(readOnly(nullable(Timestamp))),
    status: Type.Optional(readOnly(BroadcastStatusSchema)),
  },
  {
    title: 'BroadcastInput',
    additionalProperties: false,
    ...TITLE_OR_TEMPLATE,
    examples: [exampleBroadcast],
  },
);

export const BroadcastListQuery = Type.Object({
  ...pageQuery,
  status: Type.Optional(
    oneOf(['scheduled'], { description: 'Only broadcasts that wait for their `send_at`.' }),
  ),
});

/** A broadcast in responses. */
export const BroadcastSchema = Type.Object(
  {
    id: Id,
    title: Type.String(),
    content: nullable(Type.String()),
    action_url: nullable(Type.String()),
    category: nullable(Type.String()),
    topic: nullable(Type.String()),
    custom_attributes: nullable(freeObject('Data of your own.')),
    recipients: nullable(
      Type.Array(Type.Union([NamedRecipient, TopicSubscribers, AllUsers], { title: 'SentRecipient' })),
    ),
    overrides: nullable(OverridesSchema),
    template: Type.Optional(SentTemplate),
    created_at: Timestamp,
    send_at: nullable(described(Timestamp, 'When it is or was to be sent, if the request had a time.')),
    cancelled_at: nullable(described(Timestamp, 'When it was cancelled.')),
    status: BroadcastStatusSchema,
  },
  {
    title: 'Broadcast',
    examples: [
      {
        ...exampleBroadcast,
        id: exampleId,
        topic: null,
        custom_attributes: null,
        overrides: null,
        created_at: exampleTime,
        send_at: null,
        cancelled_at: null,
        status: { status: 'processed', summary: { total: 1, failures: 0, pending: 0 }, errors: null },
      },
    ],
  },
);

export type Recipient = Static<typeof RecipientSchema> | Static<typeof AllUsers>;
export type NamedRecipient = Static<typeof NamedRecipient>;

/** Returns the group that a recipient means; undefined if it names a user. */
export function groupOf(recipient: Recipient): RecipientGroup | undefined {
  if ('topic' in recipient) return 'subscribers';
  return 'matches' in recipient ? 'everyone' : undefined;
}
/** The subscribers of the topic, or all users of the project. */
export type RecipientGroup = 'subscribers' | 'everyone';

/** Returns whether a recipient names a user. */
export function isNamed(recipient: Recipient): recipient is NamedRecipient {
  return groupOf(recipient) === undefined;
}

/** A broadcast to send: of this version of the API, or with the recipients of version 1. */
export type NewBroadcast = Omit<Static<typeof NewBroadcastSchema>, 'recipients'> & {
  recipients: Recipient[] | null;
};
