import { type Static, Type } from 'typebox';
import {
  described,
  exampleId,
  Id,
  nullable,
  oneOf,
  page,
  pageQuery,
  readOnly,
  storedString,
  Timestamp,
} from './common.ts';
import { EVENT_FILTERS, EventTypeName } from './event.ts';

const url = Type.String({
  minLength: 1,
  maxLength: 2_048,
  format: 'uri',
  pattern: '^https?://[^\\s/?#@\\\\]+([/?#][^\\s]*)?$',
  description: 'The address that receives the events: http or https, without a user name or password.',
  examples: ['https://shop.example/webhooks/belfry'],
});
const eventTypes = Type.Array(oneOf(EVENT_FILTERS, { title: 'EventFilter' }), {
  maxItems: 100,
  uniqueItems: true,
  description: 'The events to send: types, or families such as `delivery.*`. An empty list means all.',
});

const UnreadableSecret = Type.Object(
  {
    code: Type.Literal('secret_unreadable'),
    message: Type.String({ description: 'The missing key, and what to do.' }),
  },
  {
    title: 'UnreadableSecret',
    additionalProperties: false,
    description:
      'Only if the secret was encrypted with a key that this server does not have, so nothing is sent to ' +
      'the webhook. Messages are retried for a day. Start the server with that key, or rotate the secret.',
    examples: [
      {
        code: 'secret_unreadable',
        message:
          'The secret was encrypted with the key 1f3a5c7e, which this server does not have: add it to ' +
          'SECRET_KEY, or rotate the secret',
      },
    ],
  },
);

/** The body of `PUT /webhooks`. */
export const SaveWebhook = Type.Object(
  {
    id: Type.Optional(described(Id, 'The webhook to change. If omitted, a new one is created.')),
    url,
    description: Type.Optional(nullable(storedString({ maxLength: 1_000 }))),
    event_types: Type.Optional(eventTypes),
    disabled: Type.Optional(
      Type.Boolean({
        description:
          'A disabled webhook gets no messages. When it is enabled again, it gets the events from then on.',
      }),
    ),
    // Programs save what they read.
    disabled_reason: Type.Optional(readOnly(nullable(Type.String()))),
    failing_since: Type.Optional(readOnly(nullable(Timestamp))),
    error: Type.Optional(readOnly(UnreadableSecret)),
    created_at: Type.Optional(readOnly(Timestamp)),
    updated_at: Type.Optional(readOnly(Timestamp)),
  },
  {
    title: 'WebhookInput',
    additionalProperties: false,
    description: 'Members in the body replace stored values, missing members stay.',
    examples: [{ url: 'https://shop.example/webhooks/belfry', event_types: ['delivery.failed', 'user.*'] }],
  },
);
export type SaveWebhook = Static<typeof SaveWebhook>;

/** An address that receives the events of a project. */
export const Webhook = Type.Object(
  {
    id: Id,
    url,
    description: nullable(Type.String()),
    event_types: eventTypes,
    disabled: Type.Boolean(),
    disabled_reason: nullable(
      Type.String({ description: 'Why Belfry disabled it; `null` if a request did.' }),
    ),
    failing_since: nullable(described(Timestamp, 'Since when every message failed; `null` after a success.')),
    error: Type.Optional(UnreadableSecret),
    created_at: Timestamp,
    updated_at: Timestamp,
  },
  {
    title: 'Webhook',
    examples: [
      {
        id: exampleId,
        url: 'https://shop.example/webhooks/belfry',
        description: null,
        event_types: ['delivery.failed', 'user.*'],
        disabled: false,
        disabled_reason: null,
        failing_since: null,
        created_at: '2026-01-31T12:00:00.000Z',
        updated_at: '2026-01-31T12:00:00.000Z',
      },
    ],
  },
);
export type Webhook = Static<typeof Webhook>;
export const WebhookPage = page(Webhook);

const secret = Type.String({
  description: 'Verifies messages according to Standard Webhooks (https://www.standardwebhooks.com).',
  examples: ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'],
});

export const WebhookSecret = Type.Object(
  {
    secret,
    former_secret: Type.Optional(
      Type.String({ description: 'The secret before the last rotation. Messages are signed with both.' }),
    ),
    former_secret_until: Type.Optional(Timestamp),
  },
  { title: 'WebhookSecret', examples: [{ secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw' }] },
);

/** The response to a rotation. The new secret is read where secrets are. */
export const RotatedSecret = Type.Object(
  { former_secret_until: Timestamp },
  { title: 'WebhookSecretRotation' },
);

/** The messages to replay. */
export const ReplayWebhook = Type.Object(
  {
    event_id: Type.Optional(described(Id, 'This event, of any type.')),
    since: Type.Optional(Type.String({ format: 'date-time', description: 'Events from this time on.' })),
    until: Type.Optional(
      Type.String({ format: 'date-time', description: 'Events before this time; now if omitted.' }),
    ),
    status: Type.Optional(
      oneOf(['failed', 'all'], {
        description:
          '`failed` (if omitted): messages that failed for good. `all`: every event of the chosen types, ' +
          'also events that were accepted or happened while the webhook was disabled.',
      }),
    ),
  },
  {
    title: 'WebhookReplayInput',
    additionalProperties: false,
    anyOf: [Type.Object({ event_id: Type.Unknown() }), Type.Object({ since: Type.Unknown() })],
    'x-problem': 'needs an event_id or a since',
    examples: [{ since: '2026-01-31T12:00:00.000Z', status: 'failed' }],
  },
);
export type ReplayWebhook = Static<typeof ReplayWebhook>;

const WebhookDeliveryStatus = oneOf(['sent', 'retrying', 'failed'], { title: 'WebhookDeliveryStatus' });

export const WebhookDeliveryQuery = Type.Object({
  ...pageQuery,
  status: Type.Optional(described(WebhookDeliveryStatus, 'Only messages in this state.')),
});

/** The delivery of an event to a webhook. */
export const WebhookDelivery = Type.Object(
  {
    id: described(Id, 'The id of the event, and the `webhook-id` of the message.'),
    type: EventTypeName,
    status: WebhookDeliveryStatus,
    attempts: Type.Integer(),
    response_status: nullable(Type.Integer({ description: 'The HTTP status of the last response.' })),
    reason: nullable(Type.String({ description: 'Why the last attempt failed.' })),
    duration_ms: nullable(Type.Integer()),
    last_attempt_at: nullable(Timestamp),
    next_attempt_at: nullable(Timestamp),
  },
  {
    title: 'WebhookDelivery',
    examples: [
      {
        id: '0197a3c4-5b6e-7f01-8a2b-3c4d5e6f0000',
        type: 'delivery.failed',
        status: 'retrying',
        attempts: 3,
        response_status: 503,
        reason: 'responded with 503',
        duration_ms: 120,
        last_attempt_at: '2026-01-31T12:00:36.000Z',
        next_attempt_at: '2026-01-31T12:02:07.000Z',
      },
    ],
  },
);
export const WebhookDeliveryPage = page(WebhookDelivery);
