import { Type } from 'typebox';
import { FreeObject, Id, nullable, oneOf, Timestamp } from './common.ts';
import { DeliveryRecord } from './delivery.ts';
import { UserDeliveryWindows } from './delivery-windows.ts';
import { Event } from './event.ts';
import { Notification } from './notification.ts';
import { Preferences } from './preference.ts';
import { Suppression } from './suppression.ts';
import { Subscription } from './topic.ts';
import { User } from './user.ts';
import { ImportFailure } from './user-import.ts';
import { WorkflowRun } from './workflow.ts';

const ExportedRun = Type.Object(
  {
    ...WorkflowRun.properties,
    collected: Type.Optional(
      Type.Array(FreeObject, { description: 'Of a run that waits for its digest: the inputs so far.' }),
    ),
  },
  { title: 'ExportedWorkflowRun' },
);

export const UserExportQuery = Type.Object({
  format: Type.Optional(
    oneOf(['ndjson', 'csv'], {
      description: 'NDJSON, with a user on each line, or CSV with a header. NDJSON if omitted.',
    }),
  ),
});

/** Everything that is stored about a user. */
export const UserExport = Type.Object(
  {
    user: User,
    former_identities: Type.Array(
      Type.Object({ kind: oneOf(['external_id', 'email']), value: Type.String() }),
      { description: 'External ids and addresses that the user had before.' },
    ),
    preferences: Preferences,
    delivery_windows: UserDeliveryWindows,
    tokens: Type.Array(
      Type.Object({
        id: Type.String(),
        channel: Type.String(),
        created_at: Timestamp,
        updated_at: nullable(Timestamp),
        discarded_at: nullable(Timestamp),
      }),
      { description: 'The tokens of all channels, without their secrets.' },
    ),
    subscriptions: Type.Array(Subscription),
    notifications: Type.Array(
      Type.Object({
        ...Notification.properties,
        deliveries: Type.Array(DeliveryRecord, { description: 'The deliveries over all channels.' }),
      }),
    ),
    suppressions: Type.Array(Suppression, {
      description: 'The suppressed addresses that the user has, had, or was known with.',
    }),
    import_failures: Type.Array(Type.Object({ import_id: Id, ...ImportFailure.properties }), {
      description: 'The entries of imports within the last seven days that named the user and failed.',
    }),
    workflow_runs: Type.Array(ExportedRun, { description: 'The runs of workflows for the user.' }),
    events: Type.Array(Event, {
      description: 'The events that say something about the user besides its id.',
    }),
  },
  { title: 'UserExport' },
);
