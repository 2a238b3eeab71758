import { Type } from 'typebox';
import type { Streams } from '../realtime/stream.ts';
import { type App, userRoute } from '../route.ts';

/**
 * Registers `GET /notifications/stream`: what happens to a user's notifications, as Server-Sent Events that
 * resume with `Last-Event-ID`. The token comes in the header only: in an address it would stand in logs,
 * histories and referrers. An EventSource that takes a `fetch` of one's own can send it, and browsers have
 * the WebSocket with its inbox token besides.
 */
export function streamRoute(app: App, streams: Streams): void {
  userRoute(app, {
    method: 'GET',
    url: '/notifications/stream',
    operationId: 'streamNotifications',
    summary: "Stream a user's notifications",
    description:
      'Server-Sent Events. Each has the name of what happened (`notifications/new`, `notifications/read`, …) and JSON data ' +
      '`{id, name, timestamp, data: {id, client_id?, notification?}}`. A client that comes back with `Last-Event-ID` is told ' +
      'what it missed, in order; when that is too much or cannot be told, a `resync` event asks it to fetch the list.',
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
