import { Type } from 'typebox';
import { BroadcastListQuery, BroadcastSchema, NewBroadcastSchema } from '../../contract/broadcast.ts';
import { described, Id, page } from '../../contract/common.ts';
import { problemsBeyondSchema } from '../../domain/line/accept/prepare.ts';
import { sendBroadcast } from '../../domain/line/accept/send-broadcast.ts';
import { cancelBroadcast } from '../../domain/line/broadcasts/cancel.ts';
import { getBroadcast, listBroadcasts } from '../../domain/line/broadcasts/get.ts';
import { ClientError } from '../../errors.ts';
import { BROADCAST_BODY_BYTES, rawBroadcast } from '../bodies/broadcast-body.ts';
import { found } from '../found.ts';
import { readCursor } from '../pagination.ts';
import { rawJson } from '../reply.ts';
import { type App, projectRoute } from '../route.ts';

/** POST, GET, list and cancellation of /broadcasts. */
export function broadcastRoutes(app: App): void {
  projectRoute(app, {
    method: 'POST',
    url: '/broadcasts',
    operationId: 'createBroadcast',
    summary: 'Send a broadcast to up to 1000 recipients',
    description:
      'Creates one notification for each user, and creates users that do not exist yet. Responds as soon ' +
      'as the broadcast is stored; delivery continues in the background, and `status` shows its ' +
      'progress. A broadcast cannot be changed. It can be cancelled until it has ended.',
    tags: ['Broadcasts'],
    body: NewBroadcastSchema,
    alsoWrong: ({ body }) => problemsBeyondSchema(body, app.context.clock.now()),
    unwrap: 'broadcast',
    bodyLimit: BROADCAST_BODY_BYTES,
    longArray: 'recipients',
    reply: { 201: BroadcastSchema },
    refuseUnknown: true,
    idempotency: 'own',
    async handler({ project, body, request, idempotencyKey: idempotency, reply }) {
      const raw = rawBroadcast(request);
      const sent = await sendBroadcast(app.context, project, body, { raw, idempotency });
      if (sent.replayed) reply.header('idempotency-replayed', 'true');
      return rawJson(sent.json);
    },
  });

  projectRoute(app, {
    method: 'GET',
    url: '/broadcasts',
    operationId: 'listBroadcasts',
    summary: 'List the broadcasts of the project, newest first',
    description:
      'Each broadcast has its texts, its recipients and the status of its delivery. A page whose texts ' +
      'exceed 16 MiB may have fewer records than `limit`; follow `links.next` until it is `null`.',
    tags: ['Broadcasts'],
    query: BroadcastListQuery,
    reply: { 200: page(BroadcastSchema) },
    async handler({ project, query: { status, ...pageOf }, textPage, context }) {
      const scheduled = status === 'scheduled';
      return textPage(await listBroadcasts(context.db, project.id, readCursor(pageOf), { scheduled }));
    },
  });

  projectRoute(app, {
    method: 'GET',
    url: '/broadcasts/:broadcast_id',
    operationId: 'getBroadcast',
    summary: 'Get a broadcast',
    description:
      'Returns the broadcast with its texts, its recipients and the status of its delivery. `GET ' +
      '/broadcasts/{broadcast_id}/deliveries` lists each delivery.',
    tags: ['Broadcasts'],
    params: Type.Object({ broadcast_id: described(Id, 'The id of the broadcast.') }),
    reply: { 200: BroadcastSchema },
    async handler({ project, params, context }) {
      return rawJson(found(await getBroadcast(context.db, project.id, params.broadcast_id)));
    },
  });

  projectRoute(app, {
    method: 'POST',
    url: '/broadcasts/:broadcast_id/cancel',
    operationId: 'cancelBroadcast',
    summary: 'Cancel a broadcast',
    description:
      'Deliveries that are not sent yet are skipped with the code `cancelled`, and no further ' +
      'subscribers of a topic get it. Messages in flight are finished, and notifications that an inbox ' +
      'shows stay there. A broadcast that has ended does not change: its `cancelled_at` stays `null`. The ' +
      'request can be repeated.',
    tags: ['Broadcasts'],
    params: Type.Object({ broadcast_id: described(Id, 'The id of the broadcast.') }),
    reply: { 200: BroadcastSchema },
    async handler({ project, params, context }) {
      const id = params.broadcast_id.toLowerCase();
      if (!(await cancelBroadcast(context, project.id, id))) throw new ClientError('not_found');
      context.wake('cancel');
      return rawJson(found(await getBroadcast(context.db, project.id, id)));
    },
  });
}
