import { Type } from 'typebox';
import { described, exampleId, exampleTime, Timestamp } from '../../contract/common.ts';
import {
  contextOf,
  EVENT_MEANINGS,
  EVENT_PAYLOADS,
  EVENT_TYPES,
  Event,
  type EventType,
} from '../../contract/event.ts';
import { pascalCase } from '../../lib/pascal-case.ts';
import { exampleOf } from './examples.ts';
import type { Schema } from './schemas.ts';

/** The `webhooks` of the API description: the message of every event type, with schemas by title. */
export function webhookMessages() {
  return Object.fromEntries(EVENT_TYPES.map((type) => [type, { post: operation(type) }]));
}

/** The headers of every message, for `components.parameters`. */
export const WEBHOOK_HEADERS = {
  WebhookId: header('webhook-id', 'The id of the event. It is the same when a message is sent again.'),
  WebhookTimestamp: header('webhook-timestamp', 'The time of this attempt, in seconds since 1970.'),
  WebhookSignature: header(
    'webhook-signature',
    'One or more signatures, separated by spaces: `v1,` and the base64 of HMAC-SHA256 over ' +
      '`<webhook-id>.<webhook-timestamp>.<body>`. Accept the message if one of them matches.',
  ),
};

function operation(type: EventType) {
  const name = pascalCase(type);
  const context = contextOf(type);
  const data = {
    ...{ id: exampleId, type, timestamp: exampleTime },
    ...(context && { context: exampleOf(context as Schema) }),
  };
  return {
    operationId: `${name.charAt(0).toLowerCase()}${name.slice(1)}Event`,
    summary: `Event ${type}`,
    description: EVENT_MEANINGS[type],
    tags: ['Webhooks'],
    security: [],
    parameters: Object.keys(WEBHOOK_HEADERS).map((name) => ({ $ref: `#/components/parameters/${name}` })),
    requestBody: {
      required: true,
      content: {
        'application/json': {
          schema: JSON.parse(JSON.stringify(message(type))) as Schema,
          example: { type, timestamp: exampleTime, data },
        },
      },
    },
    responses: {
      '2XX': { description: 'The message arrived. Any other response is retried for a day.' },
      '410': { description: 'Disables the webhook.' },
    },
  };
}

function message(type: EventType) {
  return Type.Object(
    {
      type: Type.Literal(type),
      timestamp: described(Timestamp, 'The time of the event.'),
      data: eventOf(type),
    },
    { title: `${pascalCase(type)}Message` },
  );
}

const EventBase = Type.Unsafe({
  ...Event,
  title: 'EventBase',
  description: 'What the events of all types have.',
  examples: undefined,
});

function eventOf(type: EventType) {
  const context = contextOf(type);
  const payload = EVENT_PAYLOADS[type];
  const members = {
    type: Type.Literal(type),
    ...(context && { context }),
    ...(payload && { payload: Type.Optional(payload) }),
  };
  return Type.Unsafe({ title: titleOf(type), allOf: [EventBase, Type.Object(members)] });
}

function titleOf(type: EventType): string {
  return `${pascalCase(type)}Event`;
}

/** Describes an event as one of the events of all types, so that `type` says which members it has. */
export function describeEvents(definitions: Record<string, Schema>): void {
  const { title = '', examples = [] } = definitions.Event ?? {};
  const anyOf = EVENT_TYPES.map((type) => ({ $ref: `#/components/schemas/${titleOf(type)}` }));
  definitions.Event = { title, anyOf, examples };
}

function header(name: string, description: string) {
  return { in: 'header', name, required: true, description, schema: { type: 'string' } };
}
