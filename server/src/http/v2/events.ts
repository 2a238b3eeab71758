import { Type } from 'typebox';
import { Id } from '../../contract/common.ts';
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
import { memberOf } from '../../lib/members.ts';
import { type App, projectRoute } from '../route.ts';

const tags: [string] = ['Events'];

/** List, stream and GET of /events. */
export function eventRoutes(app: App): void {
  projectRoute(app, {
    method: 'GET',
    url: '/events',
    operationId: 'listEvents',
    summary: 'List what happened in the project, newest first',
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
        (event) => event,
      );
    },
  });

  projectRoute(app, {
    method: 'GET',
    url: '/events/stream',
    operationId: 'streamEvents',
    summary: "Stream the project's events",
    description:
      'Server-Sent Events. Each has the name of its type and the event as JSON data. Events come in the order in which they were ' +
      'committed, none is left out and none comes twice. A client that comes back with `Last-Event-ID`, which may also be the id of any ' +
      'event, is told what it missed; when not all of that can be told any more, a `resync` event asks it to list the events.',
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
    tags,
    params: Type.Object({ event_id: Id }),
    reply: { 200: Event },
    async handler({ project, params, context }) {
      const event = await getEvent(context.db, project.id, params.event_id.toLowerCase());
      if (event === undefined) throw new ClientError('not_found');
      return event;
    },
  });
}

/** The types that a query's `type` names; all where it names none. Throws for what is no type. */
function readTypes(text: string | undefined): EventType[] | undefined {
  const unknown = unknownTypes(text);
  if (unknown.length > 0) throw new ClientError('validation_failed', unknown);
  return typesOf(filtersIn(text ?? ''));
}

function unknownTypes(text: unknown): string[] {
  if (typeof text !== 'string') return [];
  return filtersIn(text)
    .filter((name) => !EVENT_FILTERS.includes(name))
    .map((name) => `Param 'type' names no type of event: ${name.slice(0, 100)}`);
}

function filtersIn(text: string): string[] {
  const names = text.split(',').map((name) => name.trim());
  return names.filter((name) => name !== '');
}
