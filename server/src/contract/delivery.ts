import { type Static, Type } from 'typebox';
import { Channel } from './channel.ts';
import { described, exampleId, Id, nullable, oneOf, page, pageQuery, Timestamp, UserName } from './common.ts';

const exampleDelivery = '0197a3c4-5b6e-7a01-8513-7708190a1b2c.email';

/** The states of a delivery. The last three are final. */
const DELIVERY_STATES = ['scheduled', 'retrying', 'sent', 'failed', 'skipped'] as const;
export type DeliveryStatus = (typeof DELIVERY_STATES)[number];
const DeliveryState = oneOf(DELIVERY_STATES, {
  title: 'DeliveryState',
  description:
    '`scheduled`: waits for its first attempt. `retrying`: an attempt failed and will be retried, or the ' +
    'delivery is replayed. Final states are `sent` (a provider accepted it, or the inbox shows it), ' +
    '`failed` and `skipped` (not sent on this channel).',
});

/** What a provider can report about an accepted message. */
export const RECEIPTS = ['delivered', 'bounced', 'complained', 'dropped'] as const;

/** A notification on one channel, with its outcome: `Delivery` in the API. */
export const DeliveryRecord = Type.Object(
  {
    id: Type.String({ description: '`<notification_id>.<channel>`', examples: [exampleDelivery] }),
    notification_id: Id,
    broadcast_id: Id,
    user_id: Id,
    user: nullable(described(UserName, 'The user, or `null` if it was deleted.')),
    channel: Channel,
    state: DeliveryState,
    code: nullable(
      Type.String({
        description:
          'The reason for its state as a word of Belfry or of the provider. `integration_paused`: it is ' +
          'due and waits for a paused integration. `rate_limited`: it waits for the rate limit of the ' +
          'integration or its provider. `outside_window`: it waits for the next window. `quiet_hours`: it ' +
          'waits for the end of the quiet hours.',
      }),
    ),
    reason: nullable(Type.String({ description: 'The reason for its state, for people.' })),
    provider: nullable(
      Type.String({
        description: 'The provider of the last attempt. For the inbox it is the `BRAND` of the server.',
      }),
    ),
    integration_id: nullable(Id),
    provider_id: nullable(
      Type.String({
        description: 'The id of the message at the provider; of several, the first accepted one.',
      }),
    ),
    attempts: Type.Integer({ description: 'How many attempts were made. A replay starts at zero.' }),
    replays: Type.Integer({ description: 'How often it was replayed.' }),
    targets: nullable(
      Type.Object(
        {
          accepted: Type.Integer({ description: 'Targets for which a provider accepted the message.' }),
          gone: Type.Integer({ description: 'Targets that no longer exist.' }),
          failed: Type.Integer({ description: 'Targets that failed.' }),
          provider_ids: Type.Array(Type.String(), {
            description: 'The ids of the accepted messages at the providers, as far as they have one.',
          }),
        },
        {
          title: 'DeliveryTargets',
          description: 'The results for the devices, browsers or chats of the user, if there are several.',
        },
      ),
    ),
    due_at: nullable(
      described(
        Timestamp,
        'The time of the next attempt, while it is `scheduled` or `retrying`. A delivery window or a rate ' +
          'limit can defer it.',
      ),
    ),
    first_attempt_at: nullable(Timestamp),
    last_attempt_at: nullable(
      described(Timestamp, 'The time of the last attempt, or at which it reached its state.'),
    ),
    receipt: nullable(
      oneOf(RECEIPTS, {
        description: 'What the provider reported afterwards. It does not change the state.',
      }),
    ),
    receipt_at: nullable(Timestamp),
    opened_at: nullable(described(Timestamp, 'When it was first opened, if the project tracks opens.')),
    opens: Type.Integer({ description: 'How often it was opened.' }),
    clicked_at: nullable(
      described(Timestamp, 'When it, or a link in it, was first clicked, if the project tracks clicks.'),
    ),
    clicks: Type.Integer({ description: 'How often it was clicked.' }),
  },
  {
    title: 'Delivery',
    examples: [
      {
        id: exampleDelivery,
        notification_id: '0197a3c4-5b6e-7a01-8513-7708190a1b2c',
        broadcast_id: '0197a3c4-5b6e-7a01-9b2c-3d4e5f607182',
        user_id: exampleId,
        user: { external_id: '42', email: 'a***@example.com' },
        channel: 'email',
        state: 'sent',
        code: null,
        reason: null,
        provider: 'smtp',
        integration_id: '0197a3c4-0a1b-7c2d-8e3f-4a5b6c7d8e9f',
        provider_id: '<0197a3c4-5b6e-7a01-8513-7708190a1b2c@shop.example>',
        attempts: 1,
        replays: 0,
        targets: null,
        due_at: null,
        first_attempt_at: '2026-01-31T12:00:00.000Z',
        last_attempt_at: '2026-01-31T12:00:00.120Z',
        receipt: 'delivered',
        receipt_at: '2026-01-31T12:00:03.000Z',
        opened_at: '2026-01-31T12:05:00.000Z',
        opens: 2,
        clicked_at: null,
        clicks: 0,
      },
    ],
  },
);
export type DeliveryRecord = Static<typeof DeliveryRecord>;
export const DeliveryPage = page(DeliveryRecord);

const UUID = '[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}';
/** The id of a delivery, or a cursor of `links`, which also has its position. */
const cursor = (description: string) =>
  Type.Optional(
    Type.Unsafe<string | null>({
      type: ['string', 'null'],
      pattern: `^((([0-9]{1,9}|failed)-)?${UUID}(\\.[a-z_]{1,20})?)?$`,
      'x-problem': 'is not the id of a record',
      description,
    }),
  );

export const DeliveryListQuery = Type.Object({
  limit: pageQuery.limit,
  starting_after: cursor('The id of the last record of a page. Returns the page after it.'),
  ending_before: cursor('The id of the first record of a page. Returns the page before it.'),
  state: Type.Optional(described(DeliveryState, 'Only deliveries in this state.')),
  channel: Type.Optional(described(Channel, 'Only deliveries on this channel.')),
});
export type DeliveryListQuery = Static<typeof DeliveryListQuery>;

/** The deliveries of a broadcast to replay. */
export const ReplayDeliveries = Type.Object(
  {
    state: Type.Optional(
      oneOf(['failed', 'skipped'], {
        description:
          '`failed` if omitted. `skipped` checks preferences and addresses again, and requires `user_ids`.',
      }),
    ),
    channel: Type.Optional(described(Channel, 'Only deliveries on this channel.')),
    user_ids: Type.Optional(
      Type.Array(Id, { minItems: 1, maxItems: 1_000, description: 'Only deliveries to these users.' }),
    ),
  },
  {
    title: 'DeliveryReplayInput',
    additionalProperties: false,
    examples: [{ state: 'failed', channel: 'email' }],
  },
);
export type ReplayDeliveries = Static<typeof ReplayDeliveries>;

export const ReplayedDeliveries = Type.Object(
  { replayed: Type.Integer({ description: 'How many deliveries are replayed.' }) },
  { title: 'DeliveryReplay', examples: [{ replayed: 3 }] },
);
