import { Type } from 'typebox';
import type { Streams } from '../realtime/stream.ts';
import { type App, userRoute } from '../route.ts';

/**
 * Registers `GET /notifications/stream`: Server-Sent Events that resume with `Last-Event-ID`. The token comes
 * in the header only, because an address ends up in logs, histories and referrers. Browsers without a custom
 * EventSource use the WebSocket with an inbox token.
 */
export function streamRoute(app: App, streams: Streams): void {
  userRoute(app, {
    method: 'GET',
    url: '/notifications/stream',
    operationId: 'streamNotifications',
    summary: 'Stream the notifications of the user',
    description:
      'Sends Server-Sent Events whose name says what happened (`notifications/new`, ' +
      '`notifications/read`, …) and whose data is `{id, name, timestamp, data: {id, client_id?, ' +
      'notification?}}`. A client that reconnects with `Last-Event-ID` gets the events that it missed; ' +
      'if they are too many, it gets a `resync` event and should list the notifications.',
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
