import { type Static, Type } from 'typebox';
import { described, FreeObject, Id, oneOf, page, pageQuery, Timestamp } from './common.ts';

/**
 * Everything that is recorded, and when: the list, its type and its reference page are made from this. The
 * names are those that published clients and integrations know, and ours in the same manner.
 */
export const EVENT_MEANINGS = {
  'broadcast.created': 'A broadcast was accepted.',
  'broadcast.processed':
    'Every delivery of a broadcast that was due immediately has had its first attempt; `payload` has the figures at that moment. Recorded once.',
  'notification.created':
    'Users have a notification; also one that their inbox does not show, or not yet, because its category, or the user, has it so.',
  'notification.seen': 'A user has seen a notification in a list.',
  'notification.read': 'A user has read a notification.',
  'notification.unread': 'A user has marked a notification as not read.',
  'notification.archived': 'A user has archived a notification.',
  'notification.unarchived': 'A user has taken a notification out of the archive.',
  'notification.deleted': 'A user has deleted a notification.',
  'delivery.scheduled':
    'A delivery waits for the delay of its category, or for the hours when messages may come; `payload.due_at` says until when.',
  'delivery.sent':
    'The provider has accepted the message for at least one target of the delivery, or the inbox shows the notification.',
  'delivery.delivered': 'The provider reports that the message has arrived.',
  'delivery.bounced': 'The provider reports that the message came back.',
  'delivery.complained': 'The provider reports that the recipient has called the message spam.',
  'delivery.failed': 'The delivery has ended without success; `log` says why.',
  'delivery.retried':
    'An attempt has failed, and another will follow; or the outcome for further devices of a delivery that is `sent`.',
  'delivery.replayed':
    'A delivery that had failed, or was skipped, is sent anew because the project asked for it.',
  'delivery.skipped': 'The channel was not used for this notification; `context.code` says why.',
  'delivery.opened':
    'The recipient has opened the e-mail, for the first time; scanners and proxies look like recipients.',
  'delivery.clicked':
    'A link of the e-mail was followed, which `payload.url` names, or the notification was clicked in the inbox or as a push; up to 100 times.',
  'delivery.dropped': 'The provider reports that it took the message and then did not send it.',
  'token.saved': 'A token of a user was saved, or saved again.',
  'token.discarded': 'A token will not be used any more.',
  'user.created': 'A user came to be.',
  'user.updated': 'A user was changed.',
  'user.deleted': 'A user was deleted; what is kept of it is purged later.',
  'user.restored': 'A deleted user came back before the purge.',
  'workflow.run.started': 'A run of a workflow began.',
  'workflow.run.step': 'A step of a run ended.',
  'workflow.run.completed': 'A run of a workflow ended well.',
  'workflow.run.failed': 'A run of a workflow ended with an error.',
  'workflow.run.aborted': 'A run of a workflow was stopped.',
  'integration.saved': 'The configuration of a provider was saved.',
  'integration.deleted': 'The configuration of a provider was deleted.',
  'integration.paused':
    'Nothing is sent by an integration for now: the provider refuses its config, or does not answer. It is tried again by itself; `log` says why.',
  'integration.resumed': 'An integration that was paused works again.',
  'integration.received': 'A signed webhook of a vendor was taken in; `payload` is what it said.',
  'installation.saved': 'An app was installed: a Slack workspace, a browser, an inbox.',
  'installation.broken': 'An installation does not work any more and has to be made anew.',
  'preferences.updated': 'A user has changed what it wants to get; `payload.changes` says what.',
  'subscription.saved': 'A user has subscribed to a topic, or changed a subscription.',
  'subscription.deleted': 'A subscription to a topic has ended.',
  'suppression.added':
    'Nothing is sent to an address any more; `context` has the id and the kind, not the address.',
  'suppression.updated': 'A suppression has a stronger reason now, or another note.',
  'suppression.lifted': 'An address is delivered to again.',
  'category.saved': 'A category was saved.',
  'category.deleted': 'A category was deleted.',
  'delivery_windows.saved': 'A project, or a user, has said when messages may come.',
  'tracking.saved': 'A project has said whether opens and clicks are recorded.',
  'webhook.saved': 'A webhook was saved.',
  'webhook.deleted': 'A webhook was deleted.',
  'webhook.disabled': 'A webhook is not called any more: it answered 410, or did not work for five days.',
} as const;

export type EventType = keyof typeof EVENT_MEANINGS;
export const EVENT_TYPES = Object.keys(EVENT_MEANINGS) as EventType[];
export const EventTypeName = oneOf(EVENT_TYPES, { title: 'EventType' });

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
    type: EventTypeName,
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
    payload: Type.Optional(described(FreeObject, 'What is told besides.')),
  },
  {
    title: 'Event',
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
