import { Type } from 'typebox';
import { Id } from '../../contract/common.ts';
import {
  EVENT_FILTERS,
  Event,
  EventListQuery,
  EventPage,
  type EventType,
  typesOf,
} from '../../contract/event.ts';
import { getEvent } from '../../domain/events/get.ts';
import { listEvents } from '../../domain/events/list.ts';
import { ClientError } from '../../errors.ts';
import { type App, projectRoute } from '../route.ts';

const tags: [string] = ['Events'];

/** GET and list of /events. */
export function eventRoutes(app: App): void {
  projectRoute(app, {
    method: 'GET',
    url: '/events',
    operationId: 'listEvents',
    summary: 'List what happened in the project, newest first',
    tags,
    query: EventListQuery,
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
export function readTypes(text: string | undefined): EventType[] | undefined {
  const names = (text ?? '').split(',').map((name) => name.trim());
  const filters = names.filter((name) => name !== '');
  const unknown = filters.filter((name) => !EVENT_FILTERS.includes(name));
  if (unknown.length > 0) {
    throw new ClientError(
      'validation_failed',
      unknown.map((name) => `Param 'type' names no type of event: ${name.slice(0, 100)}`),
    );
  }
  return typesOf(filters);
}
