import { type Static, Type } from 'typebox';
import { FreeObject, Id, oneOf, page, pageQuery, Timestamp } from './common.ts';

/** Everything that is recorded. The names are those that published clients and integrations know, and ours in the same manner. */
export const EVENT_TYPES = [
  'broadcast.created',
  'broadcast.processed',
  'notification.created',
  'notification.seen',
  'notification.read',
  'notification.unread',
  'notification.archived',
  'notification.unarchived',
  'notification.deleted',
  'delivery.scheduled',
  'delivery.sent',
  'delivery.delivered',
  'delivery.bounced',
  'delivery.failed',
  'delivery.retried',
  'delivery.skipped',
  'delivery.dropped',
  'token.saved',
  'token.discarded',
  'user.created',
  'user.updated',
  'user.deleted',
  'user.restored',
  'workflow.run.started',
  'workflow.run.step',
  'workflow.run.completed',
  'workflow.run.failed',
  'workflow.run.aborted',
  'integration.saved',
  'integration.deleted',
  'integration.received',
  'installation.saved',
  'installation.broken',
  'preferences.updated',
  'subscription.saved',
  'subscription.deleted',
  'category.saved',
  'category.deleted',
  'webhook.saved',
  'webhook.deleted',
  'webhook.disabled',
] as const;

export type EventType = (typeof EVENT_TYPES)[number];

const FAMILIES = [...new Set(EVENT_TYPES.map((type) => type.slice(0, type.lastIndexOf('.'))))];

/** What a filter can name: a type, or a family of them: `delivery.*`. */
export const EVENT_FILTERS: readonly string[] = [...EVENT_TYPES, ...FAMILIES.map((family) => `${family}.*`)];

/** The types that filters stand for; undefined, which is all of them, where there is no filter. */
export function typesOf(filters: readonly string[]): EventType[] | undefined {
  if (filters.length === 0) return undefined;
  return EVENT_TYPES.filter((type) =>
    filters.some((filter) => filter === type || filter === `${type.slice(0, type.lastIndexOf('.'))}.*`),
  );
}

const typeFilter = Type.Optional(
  Type.String({
    maxLength: 1_000,
    description:
      'Only events of this type: one of the types, several separated by commas, or a family such as `delivery.*`.',
    examples: ['delivery.failed'],
  }),
);

export const EventListQuery = Type.Object({
  ...pageQuery,
  type: typeFilter,
  since: Type.Optional(
    Type.String({ format: 'date-time', description: 'Only what happened at this time or later.' }),
  ),
  until: Type.Optional(
    Type.String({ format: 'date-time', description: 'Only what happened before this time.' }),
  ),
});
export type EventListQuery = Static<typeof EventListQuery>;

export const EventStreamQuery = Type.Object({ type: typeFilter });

/** Something that happened in a project. */
export const Event = Type.Object(
  {
    id: Id,
    type: oneOf(EVENT_TYPES),
    timestamp: Timestamp,
    code: Type.Optional(
      Type.Integer({
        description: "The number in which the other side's answer said so: an HTTP or SMTP status.",
      }),
    ),
    level: Type.Optional(oneOf(['info', 'warn', 'error'])),
    log: Type.Optional(Type.String({ description: 'What happened, for people.' })),
    context: Type.Optional(
      Type.Record(Type.String(), Type.Unknown(), {
        description:
          'What it happened to and how: `user_id`, `broadcast_id`, `notification_id`, `channel`, `provider`, …; of a delivery also ' +
          '`delivery_id`, `attempt`, `duration_ms`, and as `code` the word in which the vendor said so.',
      }),
    ),
    payload: Type.Optional(
      Type.Unsafe<Record<string, unknown>>({ ...FreeObject, description: 'What is told besides.' }),
    ),
  },
  {
    examples: [
      {
        id: '0197a3c4-5b6e-7f01-8a2b-3c4d5e6f0000',
        type: 'delivery.sent',
        timestamp: '2026-01-31T12:00:00.000Z',
        level: 'info',
        context: {
          channel: 'email',
          provider: 'smtp',
          user_id: '0197a3c4-0a1b-7c2d-8e3f-4a5b6c7d8e9f',
          broadcast_id: '0197a3c4-5b6e-7a01-9b2c-3d4e5f607182',
          notification_id: '0197a3c4-5b6e-7a01-8513-7708190a1b2c',
          delivery_id: '0197a3c4-5b6e-7a01-8513-7708190a1b2c.email',
          attempt: 1,
          duration_ms: 42,
        },
      },
    ],
  },
);
export type Event = Static<typeof Event>;

export const EventPage = page(Event);
