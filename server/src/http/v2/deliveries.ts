import { Type } from 'typebox';
import { described, Id } from '../../contract/common.ts';
import {
  DeliveryListQuery,
  DeliveryPage,
  ReplayDeliveries,
  ReplayedDeliveries,
} from '../../contract/delivery.ts';
import type { Queryable } from '../../db/client.ts';
import { replayDeliveries, replayProblems } from '../../domain/after/replay/replay.ts';
import { REPLAY_KINDS } from '../../domain/after/replay/replay-failed.ts';
import { broadcastExists } from '../../domain/line/broadcasts/exists.ts';
import { listDeliveries } from '../../domain/line/ledger/list.ts';
import { deliveriesOfNotification } from '../../domain/line/ledger/of-notification.ts';
import { ClientError } from '../../errors.ts';
import { allEnded } from '../../lib/all-ended.ts';
import { found } from '../found.ts';
import { readCursor } from '../pagination.ts';
import { type App, projectRoute } from '../route.ts';

/** Registers the deliveries of a broadcast and of a notification. */
export function deliveryRoutes(app: App): void {
  const brand = app.context.config.BRAND;

  projectRoute(app, {
    method: 'GET',
    url: '/broadcasts/:broadcast_id/deliveries',
    operationId: 'listBroadcastDeliveries',
    summary: 'List the deliveries of a broadcast',
    description:
      'Returns each notification of the broadcast once for every channel that was set up when it was ' +
      "sent. The order is that of the users' ids, with the channels of a user together; named recipients " +
      'come before the subscribers of a topic. A page that is filtered by `state` may have fewer ' +
      'records than `limit`; follow `links.next` until it is `null`.',
    tags: ['Broadcasts'],
    params: Type.Object({ broadcast_id: described(Id, 'The id of the broadcast.') }),
    query: DeliveryListQuery,
    reply: { 200: DeliveryPage },
    async handler({ project, params, query, textPage, context: { db } }) {
      const id = params.broadcast_id.toLowerCase();
      const { state, channel, ...pageOf } = query;
      const filter = { ...(state ? { state } : {}), ...(channel ? { channel } : {}) };
      const ledger = { db, brand, projectId: project.id };
      const cursor = readCursor(pageOf);
      // Together, to wait for one statement less. That the broadcast is unknown comes first.
      const [, page] = await allEnded([
        checkBroadcast(db, project.id, id),
        listDeliveries(ledger, id, filter, cursor),
      ]);
      return textPage({ ...page, items: page.items.map(({ delivery }) => JSON.stringify(delivery)) });
    },
  });

  projectRoute(app, {
    method: 'POST',
    url: '/broadcasts/:broadcast_id/deliveries/replay',
    operationId: 'replayBroadcastDeliveries',
    summary: 'Replay the failed deliveries of a broadcast',
    description:
      'Starts failed deliveries from the beginning, and skipped ones if `user_ids` names their users. ' +
      'Preferences and addresses are checked again, each delivery gets a new time to live and an event ' +
      '`delivery.replayed`, and `pending` of the broadcast counts it until it ends. A delivery that was ' +
      'sent is never sent twice.',
    tags: ['Broadcasts'],
    params: Type.Object({ broadcast_id: described(Id, 'The id of the broadcast.') }),
    body: ReplayDeliveries,
    alsoWrong: ({ body }) => replayProblems(body),
    reply: { 202: ReplayedDeliveries },
    async handler({ project, params, body, context }) {
      const id = params.broadcast_id.toLowerCase();
      const replayed = await replayDeliveries(context, project.id, id, body);
      for (const kind of REPLAY_KINDS) context.wake(kind);
      return { replayed };
    },
  });

  projectRoute(app, {
    method: 'GET',
    url: '/notifications/:notification_id/deliveries',
    operationId: 'listNotificationDeliveries',
    summary: 'List the deliveries of a notification',
    description:
      'Returns one delivery for every channel that was set up when the notification was sent. All of ' +
      'them are on one page.',
    tags: ['Notifications'],
    params: Type.Object({ notification_id: described(Id, 'The id of the notification.') }),
    reply: { 200: DeliveryPage },
    async handler({ project, params, paginate, context: { db } }) {
      const id = params.notification_id.toLowerCase();
      const ledger = { db, brand, projectId: project.id };
      const deliveries = found(await deliveriesOfNotification(ledger, id));
      return paginate(
        { limit: deliveries.length },
        async () => deliveries,
        (delivery) => delivery,
      );
    },
  });
}

async function checkBroadcast(db: Queryable, projectId: string, id: string): Promise<void> {
  if (!(await broadcastExists(db, projectId, id))) throw new ClientError('not_found');
}
