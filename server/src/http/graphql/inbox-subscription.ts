import type { GraphQLFieldConfig } from 'graphql';
import { InboxEvent } from '../../contract/inbox-event.ts';
import { Notification } from '../../contract/notification.ts';
import { getNotification } from '../../domain/line/notifications/get.ts';
import { notificationsJson } from '../../domain/line/notifications/json.ts';
import { ClientError } from '../../errors.ts';
import { readJson } from '../../lib/exact-numbers.ts';
import type { ContractTypes } from './contract-types.ts';
import { nonNull } from './fields.ts';
import type { InboxEventSource } from './inbox-events.ts';
import type { Scope } from './scope.ts';

/** The subscription to the changes of the user's inbox. */
export function inboxSubscription(types: ContractTypes): Record<string, GraphQLFieldConfig<unknown, Scope>> {
  types.extend('InboxEvent', () => ({
    notification: {
      type: types.object(Notification),
      description: 'The notification as it is now; null if it was deleted.',
      resolve: async (event, _args, scope) => {
        const notification = await notificationOf((event as { source: InboxEventSource }).source, scope);
        return notification && types.present(Notification, notification);
      },
    },
  }));
  return {
    inbox: {
      type: nonNull(types.object(InboxEvent)),
      description: 'The changes of the inbox of the user from now on. Needs the rights of a user.',
      subscribe: (_source, _args, { listen }) => {
        if (listen === undefined) throw new ClientError('bad_request', ['A subscription needs a WebSocket']);
        return listen();
      },
      resolve: (event) => types.present(InboxEvent, event),
    },
  };
}

/** The notification of an event. Changes come without it, so it is read. */
async function notificationOf(
  { notification, notification_id: id, name }: InboxEventSource,
  { context, caller }: Scope,
): Promise<object | null> {
  if (notification !== undefined) return notification;
  if (id === null || name === 'delete' || caller.kind !== 'user') return null;
  const row = await getNotification(context.db, caller.userId, id);
  if (row === undefined) return null;
  const [json = 'null'] = await notificationsJson(context, [row]);
  return readJson(json) as object;
}
