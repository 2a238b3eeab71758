import { Type } from 'typebox';
import type { NewBroadcast } from '../../contract/broadcast.ts';
import { described, Id } from '../../contract/common.ts';
import { problemsWithin } from '../../contract/problems.ts';
import {
  LEGACY_OVERRIDES,
  type LegacyBroadcast,
  LegacyBroadcastPage,
  WrappedBroadcast,
  WrappedNewBroadcast,
  WrappedNewNotification,
  WrappedSentNotification,
} from '../../contract/v1/broadcast.ts';
import { DeliveredNotificationPage } from '../../contract/v1/notification.ts';
import { NumberedPageQuery } from '../../contract/v1/pages.ts';
import { problemsBeyondSchema } from '../../domain/line/accept/prepare.ts';
import { sendBroadcast } from '../../domain/line/accept/send-broadcast.ts';
import { broadcastExists } from '../../domain/line/broadcasts/exists.ts';
import { getBroadcast, listNumberedBroadcasts } from '../../domain/line/broadcasts/get.ts';
import { type BroadcastFormat, shortAsString } from '../../domain/line/broadcasts/stored-broadcast.ts';
import { notificationsOfBroadcast } from '../../domain/line/ledger/of-broadcast.ts';
import { notificationsJson } from '../../domain/line/notifications/json.ts';
import { getUsers } from '../../domain/people/users/get.ts';
import { timeOf } from '../../lib/ids.ts';
import { type JsonText, joinTexts } from '../../lib/json-text.ts';
import { memberOf } from '../../lib/members.ts';
import { BROADCAST_BODY_BYTES, rawBroadcast } from '../bodies/broadcast-body.ts';
import { rawJson } from '../reply.ts';
import { type App, projectRoute } from '../route.ts';
import { deliveredJson } from './deliveries.ts';
import { found, notFound } from './found.ts';
import { notificationPage, pagesOf, whole } from './numbered-page.ts';
import { recipientJson } from './recipient.ts';

const ById = Type.Object({ broadcast_id: described(Id, 'The id of the broadcast.') });

/** Registers `POST /notifications`, which sends a broadcast, and `/broadcasts`. */
export function broadcastRoutes(app: App): void {
  sendRoute(app, {
    url: '/notifications',
    entity: 'notification',
    operationId: 'createNotificationV1',
    summary: 'Send a notification to up to 1000 recipients',
    body: WrappedNewNotification,
    reply: { 201: WrappedSentNotification },
    format: sentNotificationJson,
  });
  sendRoute(app, {
    url: '/broadcasts',
    entity: 'broadcast',
    operationId: 'createBroadcastV1',
    summary: 'Send a broadcast to up to 1000 recipients',
    body: WrappedNewBroadcast,
    reply: { 201: WrappedBroadcast },
    format: (...broadcast) => wrapped('broadcast', broadcastJson(...broadcast)),
  });

  projectRoute(app, {
    method: 'GET',
    url: '/broadcasts',
    operationId: 'listBroadcastsV1',
    summary: 'List the broadcasts of the project, newest first',
    description:
      'Each broadcast has its texts, its recipients and the status of its delivery. A page whose texts ' +
      'exceed 16 MiB is an error: reduce `per_page`.',
    tags: ['Broadcasts'],
    query: NumberedPageQuery,
    reply: { 200: LegacyBroadcastPage },
    async handler({ project, query: { page = 1, per_page: perPage = 20 }, context }) {
      const listed = await listNumberedBroadcasts(context.db, project.id, { page, perPage }, broadcastJson);
      const texts = whole(listed.texts, listed.rows);
      const separated = texts.flatMap((text, index) => (index === 0 ? [text] : [',', text]));
      const pages = JSON.stringify(pagesOf(listed.total, page, perPage)).slice(0, -1);
      return rawJson(joinTexts([`${pages},"broadcasts":[`, ...separated, ']}']));
    },
  });

  projectRoute(app, {
    method: 'GET',
    url: '/broadcasts/:broadcast_id',
    operationId: 'getBroadcastV1',
    summary: 'Get a broadcast',
    description: 'Returns the broadcast with its texts, its recipients and the status of its delivery.',
    tags: ['Broadcasts'],
    params: ById,
    reply: { 200: WrappedBroadcast },
    async handler({ project, params, context }) {
      const json = await getBroadcast(context.db, project.id, params.broadcast_id, broadcastJson);
      return rawJson(wrapped('broadcast', found(json, 'broadcast')));
    },
  });

  projectRoute(app, {
    method: 'GET',
    url: '/broadcasts/:broadcast_id/notifications',
    operationId: 'listBroadcastNotificationsV1',
    summary: 'List the notifications of a broadcast with their deliveries',
    description:
      "Returns a page of the broadcast's notifications with their users, also those that an inbox does not " +
      'show. Of a deleted user only the id is shown, and the notifications of erased users are left out. A ' +
      'page whose texts exceed 16 MiB is an error: reduce `per_page`.',
    tags: ['Broadcasts'],
    params: ById,
    query: NumberedPageQuery,
    reply: { 200: DeliveredNotificationPage },
    async handler({ project, params, query: { page = 1, per_page: perPage = 20 }, context }) {
      const { db, config } = context;
      const id = params.broadcast_id.toLowerCase();
      if (!(await broadcastExists(db, project.id, id))) throw notFound('broadcast');
      const ledger = { db, brand: config.BRAND, projectId: project.id };
      const { total, notifications } = await notificationsOfBroadcast(ledger, id, { page, perPage });
      const rows = notifications.map(({ row }) => row);
      const texts = whole(await notificationsJson(context, rows), rows);
      const userIds = rows.map((row) => row.user_id);
      const users = new Map((await getUsers(db, project.id, userIds)).map((user) => [user.id, user]));
      const records = notifications.map(({ row, deliveries }, index) => {
        const user = users.get(row.user_id) ?? { ...DELETED_USER, id: row.user_id };
        const recipient = `{"user":${recipientJson(user, ['phone_numbers'])}}`;
        return deliveredJson(texts[index] ?? '', { recipient, sentAt: row.sent_at, deliveries });
      });
      return notificationPage(pagesOf(total, page, perPage), records);
    },
  });
}

const DELETED_USER = {
  external_id: null,
  email: null,
  first_name: null,
  last_name: null,
  custom_attributes: null,
  phone_numbers: [],
};

type Entity = 'notification' | 'broadcast';

function sendRoute(
  app: App,
  {
    url,
    entity,
    format,
    ...operation
  }: {
    url: string;
    entity: Entity;
    operationId: string;
    summary: string;
    body: typeof WrappedNewNotification | typeof WrappedNewBroadcast;
    reply: { 201: typeof WrappedSentNotification } | { 201: typeof WrappedBroadcast };
    format: BroadcastFormat;
  },
): void {
  projectRoute(app, {
    ...operation,
    method: 'POST',
    url,
    description:
      'Creates a broadcast, which has one notification for each user, and creates users that do not exist ' +
      'yet. A recipient is a user, the subscribers of the topic, or with `{"matches": "*"}` every user of ' +
      'the project. Responds as soon as the broadcast is stored; `GET /broadcasts/{broadcast_id}` shows ' +
      'its progress.',
    tags: ['Broadcasts'],
    alsoWrong: ({ body }) =>
      problemsWithin(entity, problemsBeyondSchema(memberOf(body, entity), app.context.clock.now())),
    wrapper: entity,
    longArray: 'recipients',
    bodyLimit: BROADCAST_BODY_BYTES,
    idempotency: 'own',
    async handler({ project, body, request, idempotencyKey: idempotency, reply }) {
      const given = memberOf(body, entity) as LegacyBroadcast;
      const { overrides, ignored } = currentOverrides(given.overrides);
      const broadcast: NewBroadcast = { ...given, overrides };
      const { members, ...texts } = rawBroadcast(request);
      // The text of the overrides has the names of v1.
      const current = members && new Map([...members].filter(([name]) => name !== 'overrides'));
      const raw = { ...texts, members: current };
      const errors = ignored.map((name) => `${entity}.overrides.providers.${name} was ignored`);
      const how = { raw, idempotency, format, errors, within: entity };
      const sent = await sendBroadcast(app.context, project, broadcast, how);
      if (sent.replayed) reply.header('idempotency-replayed', 'true');
      return rawJson(sent.json);
    },
  });
}

/** Overrides with the provider names of version 2, and the names for which there is no provider. */
function currentOverrides(given: LegacyBroadcast['overrides']): {
  overrides: NonNullable<NewBroadcast['overrides']> | null;
  ignored: string[];
} {
  const { channels, providers } = given ?? {};
  const ignored: string[] = [];
  const renamed = Object.entries(providers ?? {}).flatMap(([name, override]) => {
    const provider = Object.hasOwn(LEGACY_OVERRIDES, name) ? LEGACY_OVERRIDES[name] : name;
    if (provider === undefined) ignored.push(name);
    return provider === undefined || override === undefined ? [] : [[provider, override] as const];
  });
  const overrides = {
    ...(channels ? { channels } : {}),
    ...(renamed.length > 0 ? { providers: Object.fromEntries(renamed) } : {}),
  };
  return { overrides: Object.keys(overrides).length > 0 ? overrides : null, ignored };
}

function wrapped(entity: Entity, json: JsonText): JsonText {
  return joinTexts([`{"${entity}":`, json, '}']);
}

type Formatted = Parameters<BroadcastFormat>;

/** The members that say what was sent, without the closing brace. */
function sentJson(id: string, parts: Formatted[1]): JsonText[] {
  const { category, topic, messageJson, overridesJson, recipientsJson } = parts;
  return [
    `{"id":"${id}",`,
    typeof messageJson === 'string' ? messageJson.slice(1, -1) : messageJson.withoutBraces(),
    `,"category":${JSON.stringify(category)},"topic":${JSON.stringify(topic)},"recipients":`,
    recipientsJson === null ? '[]' : shortAsString(recipientsJson),
    ...(overridesJson === null ? [] : [',"overrides":', overridesJson]),
  ];
}

function sentNotificationJson(id: Formatted[0], parts: Formatted[1]): JsonText {
  const times = ',"sent_at":null,"seen_at":null,"read_at":null,"archived_at":null}';
  return wrapped('notification', joinTexts([...sentJson(id, parts), times]));
}

function broadcastJson(...[id, parts, state]: Formatted): JsonText {
  const { status, total, failures, errors, send_at: sendAt } = state;
  const createdAt = new Date(timeOf(id));
  const sentAt = status === 'enqueued' ? null : (sendAt ?? createdAt);
  return joinTexts([
    ...sentJson(id, parts),
    `,"sent_at":${JSON.stringify(sentAt)},"created_at":${JSON.stringify(createdAt)},` +
      `"status":{"status":"${status}","summary":{"total":${total},"failures":${failures}},` +
      `"errors":${errors ?? '[]'}}}`,
  ]);
}
