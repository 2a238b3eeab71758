import { Type } from 'typebox';
import { ClientError } from '../../errors.ts';
import type { Streams } from '../realtime/stream.ts';
import { serveStreamSockets } from '../realtime/stream-sockets.ts';
import { type App, userRoute } from '../route.ts';

/**
 * Registers `GET /notifications/stream`: Server-Sent Events, or a WebSocket. Both resume after the last event
 * id. The token never comes in the address, which ends up in logs, histories and referrers.
 */
export function streamRoute(app: App, streams: Streams): void {
  const { api, context, fastify, limits } = app;
  const sockets = serveStreamSockets({
    ...context,
    server: fastify.server,
    onRefused: (request) => limits.refusedSocket(request),
    async authenticate(token) {
      const caller = await api.authenticate({ authorization: `Bearer ${token}` }, 'user');
      if (caller.kind !== 'user') throw new ClientError('forbidden');
      await limits.caller(caller, api, { method: 'GET' });
      return caller;
    },
  });
  fastify.addHook('preClose', () => sockets.close());
  userRoute(app, {
    method: 'GET',
    url: '/notifications/stream',
    operationId: 'streamNotifications',
    summary: 'Stream the notifications of the user',
    description:
      'Sends Server-Sent Events whose name says what happened (`notifications/new`, ' +
      '`notifications/read`, …) and whose data is `{id, name, timestamp, data: {id, client_id?, ' +
      'notification?}}`. A client that reconnects with `Last-Event-ID` gets the events that it missed; ' +
      'if they are too many, it gets a `resync` event and should list the notifications. The same stream ' +
      'comes by WebSocket at this address, with the sub-protocols `belfry.v1` and `belfry.jwt.<User JWT>` ' +
      'and with `last_event_id` in the query: each message is `{id, event, data}`.',
    tags: ['Notifications'],
    produces: 'text/event-stream',
    reply: { 200: Type.String() },
    async handler({ project, user, credential, request, reply }) {
      await streams.open(reply, {
        projectId: project.id,
        userId: user.id,
        credential,
        lastEventId: request.headers['last-event-id'],
      });
      return '';
    },
  });
}
