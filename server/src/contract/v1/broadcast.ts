import { type Static, Type } from 'typebox';
import {
  AllUsers,
  BroadcastError,
  broadcastMembers,
  ChannelOverrides,
  exampleBroadcast,
  namedRecipient,
  ProviderOverrides,
  TopicSubscribers,
} from '../broadcast.ts';
import { exampleId, exampleTime, FreeObject, Id, nullable, oneOf, Timestamp } from '../common.ts';
import { numberedPage } from './pages.ts';
import { PhoneNumbers } from './user.ts';

/** The names of v1 for overrides, and the provider whose name v2 uses; undefined if there is none. */
export const LEGACY_OVERRIDES: Readonly<Record<string, string | undefined>> = {
  ios: 'apns',
  android: 'fcm',
  postmark: undefined,
};

const Overrides = Type.Object(
  {
    channels: Type.Optional(nullable(ChannelOverrides)),
    providers: Type.Optional(
      nullable(
        Type.Object(
          {
            ...ProviderOverrides.properties,
            ...Object.fromEntries(
              Object.entries(LEGACY_OVERRIDES).map(([name, provider]) => [
                name,
                Type.Optional({
                  ...FreeObject,
                  description:
                    provider === undefined
                      ? 'Ignored, and named in `status.errors`.'
                      : `Same as \`${provider}\`.`,
                }),
              ]),
            ),
          },
          { title: 'ProviderOverrides', additionalProperties: false },
        ),
      ),
    ),
  },
  { title: 'BroadcastOverrides', additionalProperties: false },
);

const Recipient = Type.Union([namedRecipient(PhoneNumbers), TopicSubscribers, AllUsers], {
  title: 'BroadcastRecipient',
});

const { title, content, action_url, category, topic, custom_attributes } = broadcastMembers;
const NewBroadcast = Type.Object(
  {
    ...{ title, content, action_url, category, topic, custom_attributes },
    recipients: Type.Array(Recipient, { minItems: 1, maxItems: 1000 }),
    overrides: Type.Optional(nullable(Overrides)),
  },
  { title: 'BroadcastInput', additionalProperties: false },
);
export type LegacyBroadcast = Static<typeof NewBroadcast>;

/** The body of a request to send, under the name of its entity. */
export const WrappedNewBroadcast = Type.Object(
  { broadcast: NewBroadcast },
  { title: 'BroadcastRequest', additionalProperties: false, examples: [{ broadcast: exampleBroadcast }] },
);
export const WrappedNewNotification = Type.Object(
  { notification: NewBroadcast },
  {
    title: 'NotificationRequest',
    additionalProperties: false,
    examples: [{ notification: exampleBroadcast }],
  },
);

const sent = {
  id: Id,
  title: Type.String(),
  content: nullable(Type.String()),
  action_url: nullable(Type.String()),
  category: nullable(Type.String()),
  topic: nullable(Type.String()),
  custom_attributes: nullable(FreeObject),
  recipients: Type.Array(Recipient),
  overrides: Type.Optional(FreeObject),
};
const exampleSent = { ...exampleBroadcast, id: exampleId, topic: null, custom_attributes: null };

const Broadcast = Type.Object(
  {
    ...sent,
    sent_at: nullable(Timestamp),
    created_at: Timestamp,
    status: Type.Object(
      {
        status: oneOf(['enqueued', 'processing', 'processed']),
        summary: Type.Object(
          { total: Type.Integer(), failures: Type.Integer() },
          { title: 'BroadcastSummary' },
        ),
        errors: Type.Array(BroadcastError),
      },
      { title: 'BroadcastStatus' },
    ),
  },
  {
    title: 'Broadcast',
    examples: [
      {
        ...exampleSent,
        sent_at: exampleTime,
        created_at: exampleTime,
        status: { status: 'processed', summary: { total: 1, failures: 0 }, errors: [] },
      },
    ],
  },
);

export const WrappedBroadcast = Type.Object({ broadcast: Broadcast }, { title: 'BroadcastResponse' });

/** What was sent by `POST /notifications`: its id is that of the broadcast. */
const SentNotification = Type.Object(
  {
    ...sent,
    sent_at: Type.Null(),
    seen_at: Type.Null(),
    read_at: Type.Null(),
    archived_at: Type.Null(),
  },
  {
    title: 'SentNotification',
    examples: [{ ...exampleSent, sent_at: null, seen_at: null, read_at: null, archived_at: null }],
  },
);
export const WrappedSentNotification = Type.Object(
  { notification: SentNotification },
  { title: 'SentNotificationResponse' },
);

export const LegacyBroadcastPage = Type.Object(
  { ...numberedPage('broadcasts'), broadcasts: Type.Array(Broadcast) },
  { title: 'BroadcastList' },
);
