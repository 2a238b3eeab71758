import { Type } from 'typebox';
import { Id } from '../../contract/common.ts';
import {
  DeliveryListQuery,
  DeliveryPage,
  ReplayDeliveries,
  ReplayedDeliveries,
} from '../../contract/delivery.ts';
import { replayDeliveries } from '../../domain/after/replay/replay.ts';
import { broadcastExists } from '../../domain/line/broadcasts/exists.ts';
import { explainWaiting } from '../../domain/line/ledger/explain-waiting.ts';
import { listDeliveries } from '../../domain/line/ledger/list.ts';
import { deliveriesOfNotification } from '../../domain/line/ledger/of-notification.ts';
import { ClientError } from '../../errors.ts';
import { memberOf } from '../../lib/members.ts';
import { type App, projectRoute } from '../route.ts';

/** What became of a broadcast, or of one of its notifications, on every channel. */
export function deliveryRoutes(app: App): void {
  const brand = app.context.config.BRAND;

  projectRoute(app, {
    method: 'GET',
    url: '/broadcasts/:broadcast_id/deliveries',
    operationId: 'listBroadcastDeliveries',
    summary: 'List what became of a broadcast, for every user on every channel',
    description:
      "Each notification is there once on every channel that was set up when it was sent, whatever became of it. In the order of users' ids, each user's channels together; who is named " +
      'in a broadcast to a topic comes before its subscribers. A search for a `state` may end a page early: `links.next` tells whether there is more.',
    tags: ['Broadcasts'],
    params: Type.Object({ broadcast_id: Id }),
    query: DeliveryListQuery,
    reply: { 200: DeliveryPage },
    async handler({ project, params, query, paginate, context: { db } }) {
      const id = params.broadcast_id.toLowerCase();
      if (!(await broadcastExists(db, project.id, id))) throw new ClientError('not_found');
      const { state, channel, ...pageOf } = query;
      const filter = { ...(state ? { state } : {}), ...(channel ? { channel } : {}) };
      const { data, links } = await paginate(
        pageOf,
        (cursor) => listDeliveries({ db, brand }, id, filter, cursor),
        ({ delivery }) => delivery,
      );
      return { data: await explainWaiting({ db, brand }, project.id, data), links };
    },
  });

  projectRoute(app, {
    method: 'POST',
    url: '/broadcasts/:broadcast_id/deliveries/replay',
    operationId: 'replayBroadcastDeliveries',
    summary: 'Send what failed of a broadcast anew',
    description:
      'Deliveries that failed, or of users who are named such as were skipped, begin again: it is asked anew whether they are wanted and where the user is reached, they have as ' +
      'long as the first time to succeed, and each has an event `delivery.replayed`. Until they have ended they are `pending` in the `summary` of the broadcast, ' +
      'which stays `processed`. What was sent is never sent again.',
    tags: ['Broadcasts'],
    params: Type.Object({ broadcast_id: Id }),
    body: ReplayDeliveries,
    alsoWrong: ({ body }) => namesNobody(body),
    reply: { 202: ReplayedDeliveries },
    async handler({ project, params, body, context }) {
      const problems = namesNobody(body);
      if (problems.length > 0) throw new ClientError('validation_failed', problems);
      const id = params.broadcast_id.toLowerCase();
      return { replayed: await replayDeliveries(context, project.id, id, body) };
    },
  });

  projectRoute(app, {
    method: 'GET',
    url: '/notifications/:notification_id/deliveries',
    operationId: 'listNotificationDeliveries',
    summary: 'List what became of a notification on every channel',
    description: 'All of them; there is one page.',
    tags: ['Notifications'],
    params: Type.Object({ notification_id: Id }),
    reply: { 200: DeliveryPage },
    async handler({ project, params, paginate, context: { db } }) {
      const id = params.notification_id.toLowerCase();
      const known = await deliveriesOfNotification({ db, brand }, project.id, id);
      if (known === undefined) throw new ClientError('not_found');
      const found = await explainWaiting({ db, brand }, project.id, known);
      return paginate(
        { limit: found.length },
        async () => found,
        (delivery) => delivery,
      );
    },
  });
}

/**
 * What is wrong with a request to send anew what was skipped that does not say for whom, of whatever shape it
 * is.
 */
function namesNobody(body: unknown): string[] {
  return memberOf(body, 'state') === 'skipped' && memberOf(body, 'user_ids') === undefined
    ? ["Param 'user_ids' is missing: needed where state is skipped"]
    : [];
}
