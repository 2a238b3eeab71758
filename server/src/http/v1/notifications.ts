import { Type } from 'typebox';
import type { Config } from '../../config.ts';
import { UNCATEGORIZED } from '../../contract/category.ts';
import { described, Id, NoContent } from '../../contract/common.ts';
import { UserInPath } from '../../contract/user.ts';
import {
  DeliveredNotificationPage,
  LegacyNotificationFilter,
  LegacyNotificationPage,
  LegacyNotificationQuery,
  LegacyNotificationSelection,
  WrappedNotification,
} from '../../contract/v1/notification.ts';
import { NumberedPageQuery } from '../../contract/v1/pages.ts';
import { deliveriesOfUser } from '../../domain/line/ledger/of-user.ts';
import { changeNotification, type NotificationAction } from '../../domain/line/notifications/change.ts';
import { type BulkFilter, changeAllNotifications } from '../../domain/line/notifications/change-all.ts';
import { getNotification } from '../../domain/line/notifications/get.ts';
import { notificationsJson } from '../../domain/line/notifications/json.ts';
import { listNumberedPage } from '../../domain/line/notifications/list-numbered.ts';
import type { NotificationRow } from '../../domain/line/notifications/row.ts';
import { getUser, getUserByReference, type UserRow } from '../../domain/people/users/get.ts';
import { ClientError } from '../../errors.ts';
import { memberOf } from '../../lib/members.ts';
import { rawJson } from '../reply.ts';
import { type App, projectRoute, userRoute } from '../route.ts';
import { deliveredJson } from './deliveries.ts';
import { found, notFound } from './found.ts';
import { notificationPage, pagesOf, whole } from './numbered-page.ts';
import { recipientJson } from './recipient.ts';

const tags: [string] = ['Notifications'];
const ById = Type.Object({ notification_id: described(Id, 'The id of the notification.') });
const MAX_NAMES = 100;

/** Registers `/notifications`: the inbox of a user and its actions; and the notifications of a user. */
export function notificationRoutes(app: App): void {
  const { config } = app.context;

  userRoute(app, {
    method: 'GET',
    url: '/notifications',
    operationId: 'listNotificationsV1',
    summary: 'List the notifications of the user, newest first',
    description:
      'Returns a page of the inbox, and the exact counts of the notifications that match all filters. ' +
      'A page whose texts exceed 16 MiB is an error: reduce `per_page`.',
    tags,
    query: LegacyNotificationQuery,
    alsoWrong: ({ query }) => tooManyNames(query),
    reply: { 200: LegacyNotificationPage },
    async handler({ project, user: { id }, query, context }) {
      const { page = 1, per_page: perPage = 15 } = query;
      const filter = filterOf(query);
      const [user, listed] = await Promise.all([
        getUser(context.db, project.id, id),
        listNumberedPage(context.db, { projectId: project.id, id }, filter, { page, perPage }),
      ]);
      const toJson = recordJson(config, found(user, 'user'));
      const texts = whole(await notificationsJson(context, listed.rows, toJson), listed.rows);
      const counts = { unseen_count: listed.unseen, unread_count: listed.unread };
      return notificationPage({ ...pagesOf(listed.total, page, perPage), ...counts }, texts);
    },
  });

  bulkRoute(app, 'read', {
    summary: 'Mark all notifications as read',
    effect: 'Marks every notification of the user as read and seen',
  });
  bulkRoute(app, 'seen', {
    summary: 'Mark all notifications as seen',
    effect: 'Marks every notification of the user as seen',
  });

  userRoute(app, {
    method: 'GET',
    url: '/notifications/:notification_id',
    operationId: 'getNotificationV1',
    summary: 'Get a notification',
    description: 'Returns a notification of the user. Responds 404 for one that the user deleted.',
    tags,
    params: ById,
    reply: { 200: WrappedNotification },
    async handler({ project, user: { id }, params, context }) {
      const [user, row] = await Promise.all([
        getUser(context.db, project.id, id),
        getNotification(context.db, id, params.notification_id),
      ]);
      const rows = [found(row, 'notification')];
      const [json = ''] = await notificationsJson(context, rows, recordJson(config, found(user, 'user')));
      return rawJson(`{"notification":${json}}`);
    },
  });

  for (const change of CHANGES) changeRoute(app, change);

  projectRoute(app, {
    method: 'GET',
    url: '/users/:user_id/notifications',
    operationId: 'listUserNotificationsV1',
    summary: 'List the notifications of a user with their deliveries',
    description:
      'Returns a page of the notifications of a user, archived ones too, newest first. All times are ISO ' +
      '8601. A page whose texts exceed 16 MiB is an error: reduce `per_page`.',
    tags,
    params: UserInPath,
    query: NumberedPageQuery,
    reply: { 200: DeliveredNotificationPage },
    async handler({ project, params, query: { page = 1, per_page: perPage = 20 }, context }) {
      const { db } = context;
      const user = found(await getUserByReference(db, project.id, params.user_id), 'user');
      const owner = { projectId: project.id, id: user.id };
      const listed = await listNumberedPage(db, owner, { archived: 'any' }, { page, perPage });
      const texts = whole(await notificationsJson(context, listed.rows), listed.rows);
      const ledger = { db, brand: config.BRAND, projectId: project.id };
      const deliveries = await deliveriesOfUser(ledger, user.id, listed.rows);
      const recipient = `{"user":${recipientJson(user, ['phone_numbers'])}}`;
      const records = listed.rows.map(({ id, sent_at: sentAt }, index) =>
        deliveredJson(texts[index] ?? '', { recipient, sentAt, deliveries: deliveries.get(id) ?? [] }),
      );
      return notificationPage(pagesOf(listed.total, page, perPage), records);
    },
  });
}

interface Change {
  method: 'POST' | 'DELETE';
  /** Below the path of the notification. */
  path: string;
  action: NotificationAction;
  operationId: string;
  summary: string;
  description: string;
}

const CHANGES: readonly Change[] = [
  {
    method: 'POST',
    path: '/read',
    action: 'read',
    operationId: 'readNotificationV1',
    summary: 'Mark a notification as read',
    description: 'Marks the notification as read and seen.',
  },
  {
    method: 'POST',
    path: '/unread',
    action: 'unread',
    operationId: 'unreadNotificationV1',
    summary: 'Mark a notification as unread',
    description: 'Marks the notification as unread; it stays seen.',
  },
  {
    method: 'POST',
    path: '/archive',
    action: 'archive',
    operationId: 'archiveNotificationV1',
    summary: 'Archive a notification',
    description: 'Moves the notification to the archive.',
  },
  {
    method: 'DELETE',
    path: '/archive',
    action: 'unarchive',
    operationId: 'deleteArchiveV1',
    summary: 'Restore a notification from the archive, with DELETE',
    description: 'Moves the notification back to the inbox, as read or unread as it was.',
  },
  {
    method: 'POST',
    path: '/unarchive',
    action: 'unarchive',
    operationId: 'unarchiveNotificationV1',
    summary: 'Restore a notification from the archive',
    description: 'Moves the notification back to the inbox, as read or unread as it was.',
  },
  {
    method: 'DELETE',
    path: '',
    action: 'delete',
    operationId: 'deleteNotificationV1',
    summary: 'Delete a notification',
    description: 'Removes the notification from the inbox for good.',
  },
];

function changeRoute(app: App, { method, path, action, description, ...operation }: Change): void {
  userRoute(app, {
    ...operation,
    method,
    url: `/notifications/:notification_id${path}`,
    description: `${description} Open inboxes of the user show the change at once. ${
      action === 'delete' ? 'Responds 404 if it was deleted before.' : 'Repeating it has no effect.'
    }`,
    tags,
    params: ById,
    reply: { 204: NoContent },
    async handler({ user, project, params, clientId, context }) {
      const request = { projectId: project.id, userId: user.id, id: params.notification_id, clientId };
      if (!(await changeNotification(context, action, request))) throw notFound('notification');
    },
  });
}

function bulkRoute(
  app: App,
  action: 'read' | 'seen',
  { summary, effect }: { summary: string; effect: string },
): void {
  userRoute(app, {
    method: 'POST',
    url: `/notifications/${action}`,
    operationId: `${action}AllNotificationsV1`,
    summary,
    description: `${effect}, or only those that match all filters. Open inboxes show the change at once.`,
    tags,
    query: LegacyNotificationFilter,
    body: LegacyNotificationSelection,
    alsoWrong: ({ query, body }) => [...tooManyNames(query), ...tooManyNames(memberOf(body, 'notification'))],
    reply: { 204: NoContent },
    async handler({ user, project, query, body, clientId, context }) {
      await changeAllNotifications(context, action, {
        projectId: project.id,
        userId: user.id,
        filter: { ...filterOf(body?.notification ?? {}), ...filterOf(query) },
        clientId,
      });
    },
  });
}

function filterOf(query: LegacyNotificationFilter): BulkFilter {
  const problems = tooManyNames(query);
  if (problems.length > 0) throw new ClientError('validation_failed', problems);
  const categories = namesOf(query, CATEGORIES);
  const topics = namesOf(query, TOPICS);
  const { read, seen, archived } = query;
  return {
    ...(read === undefined || read === null ? {} : { read }),
    ...(seen === undefined || seen === null ? {} : { seen }),
    ...(archived === undefined || archived === null ? {} : { archived }),
    ...(categories.length === 0
      ? {}
      : { categories: categories.map((name) => (name === UNCATEGORIZED ? null : name)) }),
    ...(topics.length === 0 ? {} : { topics }),
  };
}

const CATEGORIES = ['categories', 'categories[]', 'category'] as const;
const TOPICS = ['topics', 'topics[]', 'topic'] as const;

/** The names in all these parameters. An empty one is what forms send for "any". */
function namesOf(given: unknown, parameters: readonly string[]): string[] {
  const texts = parameters.flatMap((name) => memberOf(given, name) ?? []);
  const names = texts.flatMap((text) => (typeof text === 'string' ? text.split(',') : []));
  return [...new Set(names)].filter((name) => name !== '');
}

/** Every name is compared with every notification. */
function tooManyNames(given: unknown): string[] {
  return [CATEGORIES, TOPICS].flatMap((parameters) => {
    const names = namesOf(given, parameters);
    return names.length > MAX_NAMES ? [`Param '${parameters[0]}' must have at most ${MAX_NAMES} names`] : [];
  });
}

/** Returns a function that makes v1's `Notification` as JSON text. Times are ISO 8601, or unix seconds. */
function recordJson({ LEGACY_TIMESTAMPS: format }: Pick<Config, 'LEGACY_TIMESTAMPS'>, user: UserRow) {
  const recipient = recipientJson(user);
  const time = (at: Date | null) =>
    JSON.stringify(format === 'unix' && at !== null ? Math.floor(at.getTime() / 1000) : at);
  return (row: NotificationRow, content: string) =>
    `{"id":"${row.id}",${content},"recipient":${recipient},"sent_at":${time(row.sent_at)},` +
    `"seen_at":${time(row.seen_at)},"read_at":${time(row.read_at)},"archived_at":${time(row.archived_at)}}`;
}
