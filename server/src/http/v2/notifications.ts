import { Type } from 'typebox';
import { UNCATEGORIZED } from '../../contract/category.ts';
import { described, Id, NoContent, nullable } from '../../contract/common.ts';
import {
  Notification,
  NotificationFilter,
  NotificationListQuery,
  NotificationPage,
  Snooze,
  UnreadCount,
  UnseenCount,
} from '../../contract/notification.ts';
import { Click } from '../../contract/tracking.ts';
import { recordClick } from '../../domain/after/tracking/click.ts';
import { changeNotification, type NotificationAction } from '../../domain/line/notifications/change.ts';
import { type BulkAction, changeAllNotifications } from '../../domain/line/notifications/change-all.ts';
import { countUnread, countUnseen } from '../../domain/line/notifications/count-unread.ts';
import { findFewNotifications } from '../../domain/line/notifications/few.ts';
import { getNotification } from '../../domain/line/notifications/get.ts';
import { notificationTexts } from '../../domain/line/notifications/json.ts';
import { listInbox } from '../../domain/line/notifications/list-inbox.ts';
import type { NotificationFilter as DomainFilter } from '../../domain/line/notifications/row.ts';
import { snoozeNotification } from '../../domain/line/notifications/snooze.ts';
import { ClientError } from '../../errors.ts';
import { found } from '../found.ts';
import { readCursor } from '../pagination.ts';
import { rawJson } from '../reply.ts';
import { type App, userRoute } from '../route.ts';
import { routeOfUser } from '../route-of-user.ts';

const tags: [string] = ['Notifications'];
const ById = Type.Object({ notification_id: described(Id, 'The id of the notification.') });

/** Registers `/notifications`, and the same below `/users/{user_id}`: the inbox of a user and its actions. */
export function notificationRoutes(app: App): void {
  routeOfUser(app, {
    method: 'GET',
    url: '/notifications',
    operationId: 'listNotifications',
    summary: 'List the notifications of the user, newest first',
    forProject: { summary: 'List the notifications of a user, newest first' },
    description:
      'The order is that of arrival in the inbox: a notification that its category delays is on top when ' +
      'it appears. Archived and snoozed notifications are listed only with that `status`. A page whose ' +
      'texts exceed 16 MiB may have fewer records than `limit`; follow `links.next` until it is `null`.',
    tags,
    query: NotificationListQuery,
    reply: { 200: NotificationPage },
    async handler({ project, user, query, textPage, context }) {
      const filter = { ...domainFilter(query), status: query.status };
      const owner = { projectId: project.id, id: user.id };
      return textPage(await listInbox(context, owner, filter, readCursor(query)));
    },
  });

  countRoute(app, 'unread', {
    count: countUnread,
    reply: UnreadCount,
    description:
      'Counts notifications that are neither read nor archived nor snoozed, seen or not. The count is ' +
      'exact up to 5,000.',
  });
  countRoute(app, 'unseen', {
    count: countUnseen,
    reply: UnseenCount,
    description:
      'Counts notifications that the user has not seen, for the number on a bell. The count is exact up ' +
      'to 5,000.',
  });

  bulkRoute(app, 'read', {
    summary: 'Mark all notifications as read',
    effect: 'Marks every notification of the user as read and seen',
  });
  bulkRoute(app, 'seen', {
    summary: 'Mark all notifications as seen',
    effect: 'Marks every notification of the user as seen',
  });
  bulkRoute(app, 'archive', {
    summary: 'Archive all notifications',
    effect: 'Archives every notification of the user',
  });

  routeOfUser(app, {
    method: 'GET',
    url: '/notifications/:notification_id',
    operationId: 'getNotification',
    summary: 'Get a notification',
    forProject: { summary: 'Get a notification of a user' },
    description:
      'Returns a notification of the user. Responds 404 for one that the user deleted, and for one that ' +
      'is not in the inbox.',
    tags,
    params: ById,
    reply: { 200: Notification },
    async handler({ user, params, context }) {
      const row = found(await getNotification(context.db, user.id, params.notification_id));
      const [json] = await notificationTexts(context, [row]);
      return rawJson(json ?? '');
    },
  });

  changeRoute(app, 'read', {
    summary: 'Mark a notification as read',
    effect: 'Marks the notification as read and seen.',
  });
  changeRoute(app, 'unread', {
    summary: 'Mark a notification as unread',
    effect: 'Marks the notification as unread; it stays seen.',
  });
  changeRoute(app, 'seen', {
    summary: 'Mark a notification as seen',
    effect: 'Marks the notification as seen; it stays unread.',
  });
  changeRoute(app, 'archive', {
    summary: 'Archive a notification',
    effect: 'Moves the notification to the archive; it no longer counts as unread.',
  });
  changeRoute(app, 'unarchive', {
    summary: 'Restore a notification from the archive',
    effect: 'Moves the notification back to the inbox, as read or unread as it was.',
  });
  changeRoute(app, 'delete', {
    summary: 'Delete a notification',
    effect: 'Removes the notification from the inbox for good.',
  });

  routeOfUser(app, {
    method: 'POST',
    url: '/notifications/:notification_id/snooze',
    operationId: 'snoozeNotification',
    summary: 'Snooze a notification',
    forProject: { summary: 'Snooze a notification of a user' },
    description:
      'Hides the notification until a time. Then it returns to the top of the inbox, unseen, as if it had ' +
      'just arrived. Snoozing it again replaces the time, and `null` returns it now; archiving or deleting ' +
      'it ends the snooze. Open inboxes of the user show the change at once.',
    tags,
    params: ById,
    body: Snooze,
    reply: { 204: NoContent },
    async handler({ user, project, params, body, clientId, context }) {
      const request = { projectId: project.id, userId: user.id, id: params.notification_id, clientId };
      if (!(await snoozeNotification(context, request, body.until))) throw new ClientError('not_found');
    },
  });

  userRoute(app, {
    method: 'POST',
    url: '/notifications/:notification_id/click',
    operationId: 'clickNotification',
    summary: 'Record a click on a notification',
    description:
      'For apps that show notifications. Records an event `delivery.clicked` if the project tracks ' +
      'clicks (`PUT /tracking`), and does nothing otherwise. The notification stays unread.',
    tags,
    params: ById,
    body: nullable(Click), // the body is optional, as its siblings have none
    reply: { 204: NoContent },
    async handler({ user, project, params, body, context }) {
      const { channel = 'in_app' } = body ?? {};
      const click = { projectId: project.id, userId: user.id, id: params.notification_id, channel };
      if (!(await recordClick(context, click))) throw new ClientError('not_found');
    },
  });
}

function countRoute(
  app: App,
  status: 'unread' | 'unseen',
  {
    count,
    ...texts
  }: { count: typeof countUnread; reply: typeof UnreadCount | typeof UnseenCount; description: string },
): void {
  routeOfUser(app, {
    method: 'GET',
    url: `/notifications/${status}/count`,
    operationId: `count${status === 'unread' ? 'Unread' : 'Unseen'}Notifications`,
    summary: `Count the ${status} notifications of the user`,
    forProject: { summary: `Count the ${status} notifications of a user` },
    description: texts.description,
    tags,
    query: NotificationFilter,
    reply: { 200: texts.reply },
    async handler({ project, user, query, context }) {
      const filter = domainFilter(query);
      const owner = { projectId: project.id, userId: user.id };
      const among = await findFewNotifications(context.db, owner, filter);
      return { count: await count(context.db, user.id, { ...filter, among }) };
    },
  });
}

function changeRoute(
  app: App,
  action: NotificationAction,
  { summary, effect }: { summary: string; effect: string },
): void {
  routeOfUser(app, {
    method: action === 'delete' ? 'DELETE' : 'POST',
    url: `/notifications/:notification_id${action === 'delete' ? '' : `/${action}`}`,
    operationId: `${action}Notification`,
    summary,
    forProject: { summary: summary.replace(/notifications?/, '$& of a user') },
    description: `${effect} Open inboxes of the user show the change at once. ${
      action === 'delete' ? 'Responds 404 if it was deleted before.' : 'Repeating it has no effect.'
    }`,
    tags,
    params: ById,
    reply: { 204: NoContent },
    async handler({ user, project, params, clientId, context }) {
      const request = { projectId: project.id, userId: user.id, id: params.notification_id, clientId };
      if (!(await changeNotification(context, action, request))) throw new ClientError('not_found');
    },
  });
}

function bulkRoute(
  app: App,
  action: BulkAction,
  { summary, effect }: { summary: string; effect: string },
): void {
  routeOfUser(app, {
    method: 'POST',
    url: `/notifications/${action}`,
    operationId: `${action}AllNotifications`,
    summary,
    forProject: { summary: summary.replace(/notifications?/, '$& of a user') },
    description: `${effect}, or only those of a category or topic. Open inboxes show the change at once.`,
    tags,
    query: NotificationFilter,
    reply: { 204: NoContent },
    async handler({ user, project, query, clientId, context }) {
      await changeAllNotifications(context, action, {
        projectId: project.id,
        userId: user.id,
        filter: domainFilter(query),
        clientId,
      });
    },
  });
}

/** An empty value is what forms send for "any". */
function domainFilter({ category, topic }: { category?: string; topic?: string }): DomainFilter {
  return {
    ...(category ? { categories: [category === UNCATEGORIZED ? null : category] } : {}),
    ...(topic ? { topics: [topic] } : {}),
  };
}
