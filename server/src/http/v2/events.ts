import { Type } from 'typebox';
import { described, Id } from '../../contract/common.ts';
import {
  EVENT_FILTERS,
  Event,
  EventListQuery,
  EventPage,
  EventStreamQuery,
  type EventType,
  typesOf,
} from '../../contract/event.ts';
import { getEvent } from '../../domain/ground/events/get.ts';
import { listEvents } from '../../domain/ground/events/list.ts';
import { ClientError } from '../../errors.ts';
import { withExactNumbers } from '../../lib/exact-numbers.ts';
import { memberOf } from '../../lib/members.ts';
import { found } from '../found.ts';
import { type App, projectRoute } from '../route.ts';

const tags: [string] = ['Events'];

/** Registers `/events`: the list, the stream and single events. */
export function eventRoutes(app: App): void {
  projectRoute(app, {
    method: 'GET',
    url: '/events',
    operationId: 'listEvents',
    summary: 'List the events of the project, newest first',
    description:
      "Events are kept for the days of the server's setting `EVENTS_RETENTION_DAYS` (90 by default). " +
      'Filter them by `type` and by time.',
    tags,
    query: EventListQuery,
    alsoWrong: ({ query }) => unknownTypes(memberOf(query, 'type')),
    reply: { 200: EventPage },
    async handler({ project, query, paginate, context }) {
      const filter = {
        types: readTypes(query.type),
        sinceMs: query.since === undefined ? undefined : Date.parse(query.since),
        untilMs: query.until === undefined ? undefined : Date.parse(query.until),
      };
      return paginate(
        query,
        (cursor) => listEvents(context.db, project.id, filter, cursor),
        (event) => withExactNumbers(event) as Event,
      );
    },
  });

  projectRoute(app, {
    method: 'GET',
    url: '/events/stream',
    operationId: 'streamEvents',
    summary: 'Stream the events of the project',
    description:
      'Sends each event as a Server-Sent Event: its name is the type, its data the event as JSON. Events ' +
      'arrive in the order of their commits, without gaps or repetition. A client that reconnects with ' +
      '`Last-Event-ID` gets the events that it missed; if they are too many or no longer stored, it gets ' +
      'a `resync` event and should list the events.',
    tags,
    query: EventStreamQuery,
    alsoWrong: ({ query }) => unknownTypes(memberOf(query, 'type')),
    produces: 'text/event-stream',
    reply: { 200: Type.String() },
    async handler({ project, tokenId, credential, query, request, reply }) {
      await app.context.eventStreams.open(reply, {
        projectId: project.id,
        tokenId,
        credential,
        types: readTypes(query.type),
        lastEventId: request.headers['last-event-id'],
      });
      return '';
    },
  });

  projectRoute(app, {
    method: 'GET',
    url: '/events/:event_id',
    operationId: 'getEvent',
    summary: 'Get an event',
    description: 'Returns one event by its id, which is also the `webhook-id` of its webhook messages.',
    tags,
    params: Type.Object({ event_id: described(Id, 'The id of the event.') }),
    reply: { 200: Event },
    async handler({ project, params, context }) {
      const event = await getEvent(context.db, project.id, params.event_id.toLowerCase());
      return withExactNumbers(found(event)) as Event;
    },
  });
}

/** The event types in a query; undefined for all. Throws `validation_failed` for an unknown type. */
function readTypes(text: string | undefined): EventType[] | undefined {
  const unknown = unknownTypes(text);
  if (unknown.length > 0) throw new ClientError('validation_failed', unknown);
  return typesOf(filtersIn(text ?? ''));
}

function unknownTypes(text: unknown): string[] {
  if (typeof text !== 'string') return [];
  return filtersIn(text)
    .filter((name) => !EVENT_FILTERS.includes(name))
    .map((name) => `Param 'type' has an unknown event type: ${name.slice(0, 100)}`);
}

function filtersIn(text: string): string[] {
  const names = text.split(',').map((name) => name.trim());
  return names.filter((name) => name !== '');
}
