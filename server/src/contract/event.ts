import { type Static, type TSchema, Type } from 'typebox';
import { BroadcastSummary } from './broadcast.ts';
import { CategoryConfig } from './category.ts';
import { Channel } from './channel.ts';
import {
  described,
  exampleId,
  FreeObject,
  Id,
  nullable,
  oneOf,
  page,
  pageQuery,
  Timestamp,
  UserName,
} from './common.ts';
import { ProjectDeliveryWindows, QuietHours, TimeZone } from './delivery-windows.ts';
import { ProjectSettings } from './project.ts';
import { Tracking } from './tracking.ts';

/**
 * Every type of event and when it is recorded. The type, the reference page and the webhooks of the API
 * description are made from this. The names are those that published clients know.
 */
export const EVENT_MEANINGS = {
  'broadcast.created': 'A broadcast was accepted.',
  'broadcast.processed':
    'Every delivery of a broadcast that was due at once has had its first attempt. Recorded once; ' +
    '`payload` has the counts at that moment.',
  'broadcast.cancelled': 'A broadcast was cancelled before it had ended. What was not sent yet is skipped.',
  'notification.created':
    "A user has a new notification. The inbox hides or delays it if the category's config or the user's " +
    'preferences say so.',
  'notification.seen':
    'A user saw a notification in the inbox, or marked an unseen one as read, or snoozed it.',
  'notification.read': 'A user marked a notification as read.',
  'notification.unread': 'A user marked a notification as unread.',
  'notification.archived': 'A user archived a notification.',
  'notification.unarchived': 'A user restored a notification from the archive.',
  'notification.deleted': 'A user deleted a notification.',
  'notification.snoozed': 'A user snoozed a notification, or changed the time until which it is snoozed.',
  'notification.unsnoozed':
    'A snoozed notification returned to the inbox, on time or because its user ended the snooze.',
  'delivery.scheduled':
    'A delivery waits until `payload.due_at`: for the delay of its category, a delivery window or the end ' +
    'of quiet hours.',
  'delivery.sent':
    'A provider accepted the message for at least one target of the delivery, or the inbox shows the ' +
    'notification.',
  'delivery.delivered': 'The provider reports that the message arrived.',
  'delivery.bounced': 'The provider reports that the message bounced.',
  'delivery.complained': 'The provider reports that the recipient marked the message as spam.',
  'delivery.failed': 'The delivery failed for good; `log` has the reason.',
  'delivery.retried':
    'An attempt failed and will be retried, or a delivery that is `sent` got results for further devices.',
  'delivery.replayed': 'The project requested a replay of a failed or skipped delivery.',
  'delivery.skipped': 'The notification is not sent on this channel; `context.code` has the reason.',
  'delivery.opened':
    'The recipient opened the e-mail for the first time. Scanners and proxies look like recipients.',
  'delivery.clicked':
    'The recipient opened a link of the e-mail (`payload.url`), or clicked the notification in the inbox ' +
    'or as a push message. Recorded up to 100 times for each delivery.',
  'delivery.dropped': 'The provider reports that it accepted the message and did not send it.',
  'token.saved': 'A channel token of a user was created or saved again.',
  'token.discarded': 'A channel token was discarded.',
  'user.created': 'A user was created. If a recipient of a broadcast, `context` has the `broadcast_id`.',
  'user.updated': 'A user was changed. `context` has the `broadcast_id` or the `run_id` that has caused it.',
  'user.deleted': 'A user was deleted. The personal data is erased seven days later.',
  'user.restored': 'A deleted user was restored before the data was erased.',
  'template.saved': 'A template was created or changed.',
  'template.deleted': 'A template was deleted. Broadcasts that were accepted with it keep their texts.',
  'workflow.saved': 'A workflow was created or changed.',
  'workflow.deleted': 'A workflow was deleted. Its runs continue.',
  'workflow.run.started': 'A workflow run started.',
  'workflow.run.step':
    'A step of a workflow run ended: completed, skipped, failed, or aborted because the run was cancelled.',
  'workflow.run.resumed': 'A paused workflow run was resumed.',
  'workflow.run.rerun': 'A failed workflow run continues with the step that failed.',
  'workflow.run.completed': 'A workflow run completed.',
  'workflow.run.failed': 'A workflow run failed.',
  'workflow.run.aborted': 'A workflow run was aborted.',
  'workflow.run.prevented':
    'An event started no run of a workflow, because runs and events would cause each other without end; ' +
    '`log` has the reason.',
  'integration.saved': 'The config of an integration was saved.',
  'integration.deleted': 'An integration was deleted.',
  'integration.paused':
    'An integration sends nothing for now, because its provider rejects the config or does not respond; ' +
    '`log` has the reason. Belfry tests it until it works again.',
  'integration.resumed': 'A paused integration works again.',
  'integration.received': 'A signed webhook of a provider arrived; `payload` is its body.',
  'installation.saved': 'A user installed an app: a chat workspace, a browser or an inbox.',
  'installation.broken': 'An installation no longer works and must be made again.',
  'preferences.updated':
    'A user changed preferences, quiet hours or the time zone; `payload` has the changes.',
  'subscription.saved': 'A user subscribed to a topic, or changed a subscription.',
  'subscription.deleted': 'A subscription to a topic was deleted.',
  'suppression.added':
    'An address was suppressed. `context` has the id and the kind of the suppression, not the address.',
  'suppression.updated': 'The reason or the note of a suppression changed.',
  'suppression.lifted': 'A suppression was lifted.',
  'category.saved': 'The config of a category was saved.',
  'category.deleted': 'The config of a category was deleted.',
  'delivery_windows.saved': 'The delivery windows of the project or of a user were saved.',
  'project.saved': 'The settings of the project were saved.',
  'tracking.saved': 'The tracking setting of the project was saved.',
  'webhook.saved': 'A webhook was saved.',
  'webhook.deleted': 'A webhook was deleted.',
  'webhook.disabled': 'A webhook was disabled: it responded 410, or had no success for five days.',
} as const;

export type EventType = keyof typeof EVENT_MEANINGS;
export const EVENT_TYPES = Object.keys(EVENT_MEANINGS) as EventType[];
const TYPES = new Set<string>(EVENT_TYPES);

export function isEventType(name: string): name is EventType {
  return TYPES.has(name);
}

export const EventTypeName = oneOf(EVENT_TYPES, { title: 'EventType' });

/** The family of a type: `delivery` of `delivery.failed`. */
function familyOf(type: string): string {
  return type.slice(0, type.lastIndexOf('.'));
}

const FAMILIES = [...new Set(EVENT_TYPES.map(familyOf))];

/** Every filter: a type, or a family such as `delivery.*`. */
export const EVENT_FILTERS: readonly string[] = [...EVENT_TYPES, ...FAMILIES.map((family) => `${family}.*`)];

/** The types that the filters select. Undefined if there is no filter, which selects all. */
export function typesOf(filters: readonly string[]): EventType[] | undefined {
  if (filters.length === 0) return undefined;
  return EVENT_TYPES.filter((type) =>
    filters.some((filter) => filter === type || filter === `${familyOf(type)}.*`),
  );
}

const typeFilter = Type.Optional(
  Type.String({
    maxLength: 1_000,
    description: 'Only events of these types: types separated by commas, or families such as `delivery.*`.',
    examples: ['delivery.failed'],
  }),
);

export const EventListQuery = Type.Object({
  ...pageQuery,
  type: typeFilter,
  since: Type.Optional(
    Type.String({ format: 'date-time', description: 'Only events at this time or later.' }),
  ),
  until: Type.Optional(Type.String({ format: 'date-time', description: 'Only events before this time.' })),
});
export type EventListQuery = Static<typeof EventListQuery>;

export const EventStreamQuery = Type.Object({ type: typeFilter });

/** A recorded fact about a project. */
export const Event = Type.Object(
  {
    id: Id,
    type: EventTypeName,
    timestamp: Timestamp,
    code: Type.Optional(
      Type.Integer({ description: 'The HTTP or SMTP status with which the other side responded.' }),
    ),
    level: Type.Optional(oneOf(['info', 'warn', 'error'], { description: 'How serious it is.' })),
    log: Type.Optional(Type.String({ description: 'What happened, for people.' })),
    context: Type.Optional(
      described(
        FreeObject,
        'The subject: `user_id`, `broadcast_id`, `notification_id`, `channel`, `provider` and others. A ' +
          'delivery also has `delivery_id`, `attempt` and `duration_ms`. `code` is the reason as a word.',
      ),
    ),
    user: Type.Optional(
      described(UserName, 'The user of `context.user_id`. Missing if there is none, or if it was deleted.'),
    ),
    payload: Type.Optional(
      described(
        FreeObject,
        'Details that depend on the type. Missing if there are none, or if they were erased with a user.',
      ),
    ),
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
        user: { external_id: '42', email: 'a***@example.com' },
      },
    ],
  },
);
export type Event = Static<typeof Event>;

export const EventPage = page(Event);

const Named = Type.Object(
  { id: Type.Optional(Type.String()), name: Type.String({ description: 'The name of the provider.' }) },
  { title: 'ProviderPayload' },
);
const Paused = Type.Object(
  {
    id: Id,
    name: Type.String({ description: 'The name of the provider.' }),
    party: Type.Optional(Type.String({ description: 'The only host or workspace that is affected.' })),
  },
  { title: 'IntegrationStatePayload' },
);
const Targets = Type.Object(
  {
    accepted: Type.Integer({ description: 'Targets for which a provider accepted the message.' }),
    gone: Type.Integer({ description: 'Targets that no longer exist.' }),
    failed: Type.Integer({ description: 'Targets that failed.' }),
  },
  { title: 'DeliveryTargetsPayload' },
);
const AllChanged = Type.Object(
  {
    category: Type.Optional(Type.String()),
    topic: Type.Optional(Type.String()),
    count: Type.Integer({ description: 'How many notifications changed.' }),
  },
  {
    title: 'NotificationsPayload',
    description: 'Only when a user changed all notifications at once, or all of a category or topic.',
  },
);
const Topic = Type.Object(
  {
    topic: Type.String(),
    categories: Type.Optional(
      Type.Array(
        Type.Object({ slug: Type.String(), status: Type.String() }, { title: 'SubscriptionPayloadCategory' }),
      ),
    ),
  },
  { title: 'SubscriptionPayload' },
);
const Changes = Type.Object(
  {
    changes: Type.Array(
      Type.Object(
        { category: nullable(Type.String()), channel: Channel, enabled: Type.Boolean() },
        { title: 'PreferenceChange' },
      ),
      { description: 'A `category` of `null` means notifications without a category.' },
    ),
    time_zone: Type.Optional(described(nullable(TimeZone), 'The new time zone, if it changed.')),
    quiet_hours: Type.Optional(described(nullable(QuietHours), 'The new quiet hours, if they changed.')),
  },
  { title: 'PreferencesPayload' },
);

/** The payloads of events that have one. That of `integration.received` is the body of the webhook. */
export const EVENT_PAYLOADS: { readonly [Type in EventType]?: TSchema } = {
  'broadcast.processed': BroadcastSummary,
  'notification.seen': AllChanged,
  'notification.read': AllChanged,
  'notification.archived': AllChanged,
  'delivery.scheduled': Type.Object({ due_at: Timestamp }, { title: 'DeliveryScheduledPayload' }),
  'delivery.sent': Targets,
  'delivery.failed': Targets,
  'delivery.retried': Targets,
  'delivery.skipped': Targets,
  'delivery.clicked': Type.Object({ url: Type.String() }, { title: 'DeliveryClickedPayload' }),
  'integration.saved': Named,
  'integration.deleted': Named,
  'integration.paused': Paused,
  'integration.resumed': Paused,
  'installation.saved': Named,
  'installation.broken': Named,
  'preferences.updated': Changes,
  'subscription.saved': Topic,
  'subscription.deleted': Topic,
  'category.saved': CategoryConfig,
  'category.deleted': Type.Object({ key: Type.String() }, { title: 'CategoryDeletedPayload' }),
  'delivery_windows.saved': ProjectDeliveryWindows,
  'project.saved': ProjectSettings,
  'template.saved': Type.Object({ version: Type.Integer() }, { title: 'TemplateSavedPayload' }),
  'tracking.saved': Tracking,
};

const named = (title: string, members: Record<string, TSchema>) =>
  Type.Object(members, { title: `${title}Context` });
const WorkflowKey = { workflow_key: Type.String() };

/** The members of `context` by family, for those that always have one. */
const CONTEXTS: { readonly [family: string]: TSchema } = {
  broadcast: named('Broadcast', { broadcast_id: Id }),
  notification: named('Notification', {
    user_id: Id,
    broadcast_id: Type.Optional(Id),
    notification_id: Type.Optional(described(Id, 'Missing if all notifications changed at once.')),
  }),
  delivery: named('Delivery', {
    broadcast_id: Id,
    user_id: Id,
    notification_id: Id,
    delivery_id: Type.String({
      description: '`<notification_id>.<channel>`',
      examples: [`${exampleId}.in_app`],
    }),
    channel: Channel,
    provider: Type.Optional(
      Type.String({ description: 'The provider that was used or has reported it.', examples: ['smtp'] }),
    ),
    attempt: Type.Optional(Type.Integer({ description: 'How many attempts there were.' })),
    duration_ms: Type.Optional(Type.Number({ description: 'How long the attempt took.' })),
    code: Type.Optional(Type.String({ description: 'The reason as a word.' })),
  }),
  token: named('Token', {
    user_id: Id,
    channel: Type.String({ description: '`<channel>/<kind>`', examples: ['mobile_push/expo'] }),
    token_id: Type.Optional(Type.String({ description: 'Missing if the user was erased.' })),
  }),
  user: named('User', {
    user_id: Id,
    broadcast_id: Type.Optional(described(Id, 'The broadcast that has caused it.')),
    run_id: Type.Optional(described(Id, 'The workflow run that has caused it.')),
  }),
  template: named('Template', { template_key: Type.String() }),
  workflow: named('Workflow', WorkflowKey),
  'workflow.run': named('WorkflowRun', {
    ...WorkflowKey,
    run_id: Type.Optional(described(Id, 'Missing if no run was started.')),
    user_id: Type.Optional(Id),
  }),
  integration: named('Integration', {
    provider: Type.String({ description: 'The name of the provider.', examples: ['smtp'] }),
  }),
  suppression: named('Suppression', { suppression_id: Id, kind: Type.String() }),
  webhook: named('Webhook', { webhook_id: Id }),
};

/** The schema of `context` of an event of this type, if it always has one. */
export function contextOf(type: EventType): TSchema | undefined {
  return CONTEXTS[familyOf(type)];
}
