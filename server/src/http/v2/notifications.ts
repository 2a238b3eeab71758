import { Type } from 'typebox';
import { Id, NoContent, nullable } from '../../contract/common.ts';
import {
  Notification,
  NotificationFilter,
  NotificationListQuery,
  NotificationPage,
  UnreadCount,
} from '../../contract/notification.ts';
import { Click } from '../../contract/tracking.ts';
import { recordClick } from '../../domain/after/tracking/click.ts';
import { changeNotification, type NotificationAction } from '../../domain/line/notifications/change.ts';
import { type BulkAction, changeAllNotifications } from '../../domain/line/notifications/change-all.ts';
import { countUnread } from '../../domain/line/notifications/count-unread.ts';
import { findFewNotifications } from '../../domain/line/notifications/few.ts';
import { getNotification } from '../../domain/line/notifications/get.ts';
import { notificationsJson } from '../../domain/line/notifications/json.ts';
import { listNotifications } from '../../domain/line/notifications/list.ts';
import type { NotificationFilter as DomainFilter } from '../../domain/line/notifications/row.ts';
import { ClientError } from '../../errors.ts';
import { pageThatFits } from '../pagination.ts';
import { rawJson } from '../reply.ts';
import { type App, userRoute } from '../route.ts';

const tags: [string] = ['Notifications'];
const ById = Type.Object({ notification_id: Id });

/** A user's inbox: /notifications and what can be done to them. */
export function notificationRoutes(app: App): void {
  userRoute(app, {
    method: 'GET',
    url: '/notifications',
    operationId: 'listNotifications',
    summary: "List the user's notifications, newest first",
    description:
      'In the order in which they reached the inbox: one that is shown later, after the delay of its ' +
      'category, is at the top when it is shown. ' +
      'A page whose texts are very large (16 MiB and more together) may hold fewer than `limit`; `links.next` tells whether there are more.',
    tags,
    query: NotificationListQuery,
    reply: { 200: NotificationPage },
    async handler({ project, user, query, paginate, context }) {
      const { status, ...rest } = query;
      const wanted = domainFilter(rest);
      const among = await findFewNotifications(
        context.db,
        { projectId: project.id, userId: user.id },
        wanted,
      );
      const filter = { ...wanted, among, ...(status === undefined ? {} : { status }) };
      const page = await pageThatFits(
        query,
        (fitting) =>
          paginate(
            fitting,
            (cursor) => listNotifications(context.db, user.id, filter, cursor),
            (row) => row,
          ),
        (rows) => notificationsJson(context, rows),
      );
      return rawJson(page);
    },
  });

  userRoute(app, {
    method: 'GET',
    url: '/notifications/unread/count',
    operationId: 'countUnreadNotifications',
    summary: "Count the user's unread notifications",
    tags,
    query: NotificationFilter,
    reply: { 200: UnreadCount },
    async handler({ project, user, query, context }) {
      const filter = domainFilter(query);
      const among = await findFewNotifications(
        context.db,
        { projectId: project.id, userId: user.id },
        filter,
      );
      return { count: await countUnread(context.db, user.id, { ...filter, among }) };
    },
  });

  bulkRoute(app, 'read', 'Mark all notifications read');
  bulkRoute(app, 'seen', 'Mark all notifications seen');
  bulkRoute(app, 'archive', 'Archive all notifications');

  userRoute(app, {
    method: 'GET',
    url: '/notifications/:notification_id',
    operationId: 'getNotification',
    summary: 'Get a notification',
    tags,
    params: ById,
    reply: { 200: Notification },
    async handler({ user, params, context }) {
      const row = await getNotification(context.db, user.id, params.notification_id);
      if (row === undefined) throw new ClientError('not_found');
      const [json] = await notificationsJson(context, [row]);
      return rawJson(json ?? '');
    },
  });

  changeRoute(app, 'read', 'Mark a notification read, and seen');
  changeRoute(app, 'unread', 'Mark a notification unread; it stays seen');
  changeRoute(app, 'seen', 'Mark a notification seen');
  changeRoute(app, 'archive', 'Archive a notification');
  changeRoute(app, 'unarchive', 'Take a notification out of the archive');
  changeRoute(app, 'delete', 'Delete a notification');

  userRoute(app, {
    method: 'POST',
    url: '/notifications/:notification_id/click',
    operationId: 'clickNotification',
    summary: 'Record that the user has clicked a notification',
    description:
      'For clients that show it. Recorded where the project has `clicks` tracked (`PUT /tracking`), as an event `delivery.clicked`; without it there is nothing to do. Marks nothing as read.',
    tags,
    params: ById,
    body: nullable(Click), // like its siblings it needs none
    reply: { 204: NoContent },
    async handler({ user, project, params, body, context }) {
      const { channel = 'in_app' } = body ?? {};
      const click = { projectId: project.id, userId: user.id, id: params.notification_id, channel };
      if (!(await recordClick(context, click))) throw new ClientError('not_found');
    },
  });
}

function changeRoute(app: App, action: NotificationAction, summary: string): void {
  userRoute(app, {
    method: action === 'delete' ? 'DELETE' : 'POST',
    url: `/notifications/:notification_id${action === 'delete' ? '' : `/${action}`}`,
    operationId: `${action}Notification`,
    summary,
    tags,
    params: ById,
    reply: { 204: NoContent },
    async handler({ user, project, params, clientId, context }) {
      const request = { projectId: project.id, userId: user.id, id: params.notification_id, clientId };
      if (!(await changeNotification(context, action, request))) throw new ClientError('not_found');
    },
  });
}

function bulkRoute(app: App, action: BulkAction, summary: string): void {
  userRoute(app, {
    method: 'POST',
    url: `/notifications/${action}`,
    operationId: `${action}AllNotifications`,
    summary,
    description: 'All, or those of a category or topic.',
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
    ...(category ? { category: category === 'uncategorized' ? null : category } : {}),
    ...(topic ? { topic } : {}),
  };
}
