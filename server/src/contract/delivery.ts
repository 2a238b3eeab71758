import { type Static, Type } from 'typebox';
import { Channel } from './channel.ts';
import { described, exampleId, Id, nullable, oneOf, page, pageQuery, Timestamp } from './common.ts';

const exampleDelivery = '0197a3c4-5b6e-7a01-8513-7708190a1b2c.email';

/** What a delivery can be in. The last three are final. */
export const DELIVERY_STATES = ['scheduled', 'retrying', 'sent', 'failed', 'skipped'] as const;
export type DeliveryStatus = (typeof DELIVERY_STATES)[number];
const DeliveryState = oneOf(DELIVERY_STATES, {
  title: 'DeliveryState',
  description:
    '`scheduled`: it waits for its time or its turn, and was not tried. `retrying`: it was tried, or is sent anew, and is tried again. Final: `sent`: a provider took ' +
    'it, or the inbox has it. `failed`: nobody took it. `skipped`: the channel was not used for it.',
});

/** What a provider can report after it has taken a message. */
export const RECEIPTS = ['delivered', 'bounced', 'complained', 'dropped'] as const;

/** A notification on one channel, and what became of it. */
export const Delivery = Type.Object(
  {
    id: Type.String({ description: '`<notification_id>.<channel>`', examples: [exampleDelivery] }),
    notification_id: Id,
    broadcast_id: Id,
    user_id: Id,
    channel: Channel,
    state: DeliveryState,
    code: nullable(
      Type.String({
        description:
          'Why it was skipped, failed or is tried again, in a word: ours, or that of the provider. `integration_paused`: its time has come, and it waits for an integration that is paused.',
      }),
    ),
    reason: nullable(Type.String({ description: 'The same in words, for people.' })),
    provider: nullable(
      Type.String({ description: 'Who was asked last; the inbox has the name of the service.' }),
    ),
    integration_id: nullable(Id),
    provider_id: nullable(
      Type.String({
        description: 'What the provider calls the message; of several the first that was accepted.',
      }),
    ),
    attempts: Type.Integer({ description: 'How often it was tried. Counted anew where it is sent anew.' }),
    replays: Type.Integer({ description: 'How often it was begun anew by request.' }),
    targets: nullable(
      Type.Object(
        {
          accepted: Type.Integer({ description: 'So many have got it.' }),
          gone: Type.Integer({ description: 'So many are no more.' }),
          failed: Type.Integer(),
          provider_ids: Type.Array(Type.String(), {
            description:
              'What providers call the messages that were accepted, in that order; without those that they have not named.',
          }),
        },
        {
          title: 'DeliveryTargets',
          description:
            "What became of the user's devices, browsers or chats, where it goes to more than one.",
        },
      ),
    ),
    due_at: nullable(
      described(
        Timestamp,
        'While it is `scheduled` or `retrying`: when it is attempted next. A delivery window, or a limit of the provider, may make it later.',
      ),
    ),
    first_attempt_at: nullable(Timestamp),
    last_attempt_at: nullable(
      described(Timestamp, 'When the state was reached, or the last attempt was made.'),
    ),
    receipt: nullable(
      oneOf(RECEIPTS, { description: 'What the provider reported later. It does not change the state.' }),
    ),
    receipt_at: nullable(Timestamp),
    opened_at: nullable(
      described(Timestamp, 'When it was opened first, where the project has opens tracked.'),
    ),
    opens: Type.Integer({ description: 'How often it was opened.' }),
    clicked_at: nullable(
      described(
        Timestamp,
        'When it, or a link in it, was clicked first, where the project has clicks tracked.',
      ),
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
export type Delivery = Static<typeof Delivery>;
export const DeliveryPage = page(Delivery);

const UUID = '[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}';
/** A delivery's id, or what links have in its place: where it stands as well. */
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
  starting_after: cursor('The id of the last record of a page: answers the page after it.'),
  ending_before: cursor('The id of the first record of a page: answers the page before it.'),
  state: Type.Optional(described(DeliveryState, 'Only those in this state.')),
  channel: Type.Optional(described(Channel, 'Only those on this channel.')),
});
export type DeliveryListQuery = Static<typeof DeliveryListQuery>;

/** Which deliveries of a broadcast are to be sent anew. */
export const ReplayDeliveries = Type.Object(
  {
    state: Type.Optional(
      oneOf(['failed', 'skipped'], {
        description:
          '`failed` as if left out. `skipped` asks anew whether they are wanted and can be delivered, and needs `user_ids`.',
      }),
    ),
    channel: Type.Optional(described(Channel, 'Only those on this channel.')),
    user_ids: Type.Optional(
      Type.Array(Id, { minItems: 1, maxItems: 1_000, description: 'Only those to these users.' }),
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
  { replayed: Type.Integer({ description: 'How many are sent anew.' }) },
  { title: 'DeliveryReplay', examples: [{ replayed: 3 }] },
);
