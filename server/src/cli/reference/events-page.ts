import { EVENT_MEANINGS } from '../../contract/event.ts';
import { code, page, table } from './markdown.ts';

/** The reference page of all types of events. */
export function eventsPage(): string {
  const rows = Object.entries(EVENT_MEANINGS).map(([type, meaning]) => [code(type), meaning]);
  return page(
    'Events',
    'Everything that happens in a project is recorded as an event of one of these types: `GET /v2/events` lists them, the ' +
      '[stream and webhooks](../guides/webhooks.md) tell them. A filter takes types, several of them with commas, and families such as `delivery.*`. ' +
      'Those of workflows are names alone: this version has no workflows, and records none of them.',
    table(['Type', 'When'], rows),
  );
}
