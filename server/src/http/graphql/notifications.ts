import { GraphQLBoolean, GraphQLID, GraphQLInt } from 'graphql';
import { Type } from 'typebox';
import { UNCATEGORIZED } from '../../contract/category.ts';
import { described, Id } from '../../contract/common.ts';
import { InboxFilter, Notification, SeveralFilter, Snooze } from '../../contract/notification.ts';
import { changeNotification, type NotificationAction } from '../../domain/line/notifications/change.ts';
import { type BulkAction, changeAllNotifications } from '../../domain/line/notifications/change-all.ts';
import { countUnread } from '../../domain/line/notifications/count-unread.ts';
import { findFewNotifications } from '../../domain/line/notifications/few.ts';
import { getNotification } from '../../domain/line/notifications/get.ts';
import { notificationsJson } from '../../domain/line/notifications/json.ts';
import { type InboxFilter as ListedFilter, listInbox } from '../../domain/line/notifications/list-inbox.ts';
import { listNumberedPage } from '../../domain/line/notifications/list-numbered.ts';
import type {
  NotificationFilter,
  NotificationStatus,
  StateFilter,
} from '../../domain/line/notifications/row.ts';
import { snoozeNotification } from '../../domain/line/notifications/snooze.ts';
import { ClientError } from '../../errors.ts';
import { readJson } from '../../lib/exact-numbers.ts';
import { isId } from '../../lib/ids.ts';
import type { JsonText } from '../../lib/json-text.ts';
import { found } from '../found.ts';
import { connect, connectionType, pageArgs, readPageArgs } from './connections.ts';
import { type Builder, nonNull, type OfUser } from './fields.ts';
import type { Scope } from './scope.ts';

const ById = Type.Object({ id: described(Id, 'The id of the notification.') });

/** Adds the inbox of a user, and its changes. */
export function notificationFields({ types, queries, mutations }: Builder): void {
  const type = types.object(Notification);
  const present = (json: JsonText) => types.present(Notification, readJson(json.toString()));

  queries.ofUser('notifications', {
    type: nonNull(connectionType(type)),
    description:
      'The notifications of the user, in the order of their arrival, newest first. Archived ones are only ' +
      'listed with `archived: true` or `status: ARCHIVED`, and snoozed ones with `status: SNOOZED`.',
    args: Type.Object({ ...pageArgs, ...InboxFilter.properties }),
    async resolve({ context, user }, args) {
      const page = readPageArgs(args, isId);
      const { filter, count } = listed(args);
      const owner = { projectId: user.projectId, id: user.userId };
      return connect({
        page: () => listInbox(context, owner, filter, page),
        count: async () => (await listNumberedPage(context.db, owner, count, { page: 1, perPage: 0 })).total,
        edge(json) {
          const node = present(json) as { id: string };
          return { cursor: node.id, node };
        },
      });
    },
  });

  queries.ofUser('notification', {
    type,
    description: 'A notification of the user; null if there is none with this id in the inbox.',
    args: ById,
    resolve: async ({ context, user }, { id }) => {
      const row = await getNotification(context.db, user.userId, id);
      return row && present((await notificationsJson(context, [row]))[0] ?? '');
    },
  });

  queries.ofUser('unreadCount', {
    type: nonNull(GraphQLInt),
    description: 'How many notifications are neither read, archived nor snoozed; exact up to 5,000.',
    args: SeveralFilter,
    async resolve({ context, user }, args) {
      const filter = domainFilter(args);
      const among = await findFewNotifications(context.db, user, filter);
      return countUnread(context.db, user.userId, { ...filter, among });
    },
  });

  const change = (action: Exclude<NotificationAction, 'delete'>, description: string) => {
    mutations.ofUser(`${action}Notification`, {
      type: nonNull(type),
      description: `${description} Repeating it has no effect.`,
      args: ById,
      async resolve(scope, { id }) {
        await changed(scope, action, id);
        return present(await notificationNow(scope, id));
      },
    });
  };
  change('read', 'Marks the notification as read and seen.');
  change('unread', 'Marks the notification as unread; it stays seen.');
  change('seen', 'Marks the notification as seen; it stays unread.');
  change('archive', 'Moves the notification to the archive; it no longer counts as unread.');
  change('unarchive', 'Moves the notification back to the inbox, as read or unread as it was.');

  mutations.ofUser('snoozeNotification', {
    type: nonNull(type),
    description:
      'Hides the notification until a time, at which it returns to the top of the inbox, unseen. `null` ' +
      'returns it now.',
    args: Type.Object({ ...ById.properties, ...Snooze.properties }),
    async resolve(scope, { id, until }) {
      const { context, user, clientId } = scope;
      if (!(await snoozeNotification(context, { ...user, id, clientId }, until)))
        throw new ClientError('not_found');
      return present(await notificationNow(scope, id));
    },
  });

  mutations.ofUser('deleteNotification', {
    type: nonNull(GraphQLID),
    description: 'Removes the notification from the inbox for good. Returns its id.',
    args: ById,
    async resolve(scope, { id }) {
      await changed(scope, 'delete', id);
      return id.toLowerCase();
    },
  });

  const changeAll = (action: BulkAction, description: string) => {
    mutations.ofUser(`${action}AllNotifications`, {
      type: nonNull(GraphQLBoolean),
      description: `${description}, or only those of some categories or topics. Returns true.`,
      args: SeveralFilter,
      async resolve({ context, user, clientId }, args) {
        await changeAllNotifications(context, action, { ...user, filter: domainFilter(args), clientId });
        return true;
      },
    });
  };
  changeAll('read', 'Marks every notification of the user as read and seen');
  changeAll('seen', 'Marks every notification of the user as seen');
  changeAll('archive', 'Archives every notification of the user');
}

/** Changes a notification. Throws `not_found` if the user has none with this id. */
async function changed(
  { context, user, clientId }: Scope & OfUser,
  action: NotificationAction,
  id: string,
): Promise<void> {
  if (!(await changeNotification(context, action, { ...user, id, clientId })))
    throw new ClientError('not_found');
}

/** Reads a notification after a change. Throws `not_found` if it was deleted meanwhile. */
async function notificationNow({ context, user }: Scope & OfUser, id: string): Promise<string> {
  const row = found(await getNotification(context.db, user.userId, id));
  return (await notificationsJson(context, [row]))[0] ?? '';
}

/** The filter of a list, and the same for its count. */
function listed({ status, read, seen, archived, ...names }: InboxFilter): {
  filter: ListedFilter;
  count: NotificationFilter & StateFilter & { snoozed: boolean };
} {
  const given = Object.entries({ read, archived }).filter(([, value]) => value !== undefined);
  if (status !== undefined && given.length > 0) {
    throw new ClientError(
      'validation_failed',
      given.map(([name]) => `Param '${name}' cannot be combined with 'status'`),
    );
  }
  const domain = domainFilter(names);
  const isRead = status === 'read' || (status === 'unread' ? false : read);
  const isArchived = archived ?? status === 'archived';
  const snoozed = status === 'snoozed';
  return {
    filter: {
      ...domain,
      status: snoozed ? status : isArchived ? 'archived' : statusOf(isRead),
      read: isArchived ? isRead : undefined,
      seen,
    },
    count: { ...domain, read: isRead, seen, archived: isArchived, snoozed },
  };
}

function statusOf(read: boolean | undefined): NotificationStatus | undefined {
  return read === undefined ? undefined : read ? 'read' : 'unread';
}

function domainFilter({ categories, topics }: SeveralFilter): NotificationFilter {
  return {
    ...(categories === undefined
      ? {}
      : { categories: categories.map((one) => (one === UNCATEGORIZED ? null : one)) }),
    ...(topics === undefined ? {} : { topics }),
  };
}
