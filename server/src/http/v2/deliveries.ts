import { Type } from 'typebox';
import { Id } from '../../contract/common.ts';
import { DeliveryListQuery, DeliveryPage } from '../../contract/delivery.ts';
import { broadcastExists } from '../../domain/broadcasts/exists.ts';
import { listDeliveries } from '../../domain/deliveries/list.ts';
import { deliveriesOfNotification } from '../../domain/deliveries/of-notification.ts';
import { ClientError } from '../../errors.ts';
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
      return paginate(
        pageOf,
        (cursor) => listDeliveries({ db, brand }, id, filter, cursor),
        ({ delivery }) => delivery,
      );
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
      const found = await deliveriesOfNotification({ db, brand }, project.id, id);
      if (found === undefined) throw new ClientError('not_found');
      return paginate(
        { limit: found.length },
        async () => found,
        (delivery) => delivery,
      );
    },
  });
}
