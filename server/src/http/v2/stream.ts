import { type Static, Type } from 'typebox';
import { problemsOf } from '../../contract/problems.ts';
import { validatorFor } from '../../contract/validation.ts';
import type { Connection } from '../../domain/after/realtime/subscription.ts';
import { preferencesUrl } from '../../domain/ground/links/signed-links.ts';
import type { Project } from '../../domain/setup/projects/cache.ts';
import { ClientError } from '../../errors.ts';
import type { Streams } from '../realtime/stream.ts';
import { serveStreamSockets } from '../realtime/stream-sockets.ts';
import { type App, userRoute } from '../route.ts';

const StreamQuery = Type.Object({
  snapshot: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: 100,
      description:
        'The stream begins with the state of the inbox: an event `ready` whose data is `{now, counts: ' +
        '{unread, unseen}, config?, notifications?, has_more?, preferences?}`. `now` is the time of ' +
        'the server. The `config` is that of the inbox, left out above 64 KiB. There are at most as ' +
        'many notifications as this number, newest first, and `has_more` says whether there are more. ' +
        'With 0, or if they have more than 256 KiB, they are left out, and so are the preferences. A ' +
        'stream that is resumed has only `now` and the `config`.',
    }),
  ),
});
const isStreamQuery = validatorFor('querystring', StreamQuery);

/**
 * Registers `GET /notifications/stream`: Server-Sent Events, or a WebSocket. Both resume after the last event
 * id. The token never comes in the address, which ends up in logs, histories and referrers.
 */
export function streamRoute(app: App, streams: Streams): void {
  const { api, context, fastify, limits } = app;
  const snapshotFor = (
    { project, userId }: { project: Project; userId: string },
    { snapshot: listed }: Static<typeof StreamQuery>,
  ): Connection['snapshot'] =>
    listed === undefined
      ? undefined
      : { listed, preferencesUrl: () => preferencesUrl(context.config, project, { userId }) };
  const sockets = serveStreamSockets({
    ...context,
    server: fastify.server,
    onRefused: (request) => limits.refusedSocket(request),
    async authenticate(token, lastEventId) {
      const headers = { authorization: `Bearer ${token}`, 'last-event-id': lastEventId };
      const caller = await api.authenticate(headers, 'user');
      if (caller.kind !== 'user') throw new ClientError('forbidden');
      await limits.caller(caller, api, { method: 'GET' });
      return caller;
    },
    snapshotFor(caller, parameters) {
      const query: Static<typeof StreamQuery> = Object.fromEntries(parameters);
      if (!isStreamQuery(query)) throw new ClientError('validation_failed', problemsOf(isStreamQuery.errors));
      return snapshotFor(caller, query);
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
      'if they are too many, it gets a `resync` event and should list the notifications. If the user was ' +
      'deleted, it gets 410: resuming a stream does not restore it. The same stream ' +
      'comes by WebSocket at this address, with the sub-protocols `belfry.v1` and `belfry.jwt.<User JWT>` ' +
      'and with `last_event_id` in the query: each message is `{id, event, data}`. With `snapshot`, an ' +
      'inbox opens with this one request.',
    tags: ['Notifications'],
    produces: 'text/event-stream',
    query: StreamQuery,
    errors: ['user_deleted'],
    reply: { 200: Type.String() },
    async handler({ project, user, query, credential, request, reply }) {
      await streams.open(reply, {
        projectId: project.id,
        userId: user.id,
        credential,
        snapshot: snapshotFor({ project, userId: user.id }, query),
        lastEventId: request.headers['last-event-id'],
      });
      return '';
    },
  });
}
