import type { Event } from '../../../contract/event.ts';

/** An event that runs may wait for, and that may start runs. */
export interface ArrivedEvent {
  name: string;
  userId: string | null;
  /** Events of a notification continue only runs that have sent its broadcast, or none. */
  broadcastId: string | null;
  /** The transaction that recorded it; null if that does not matter. */
  xact: string | null;
  /** The `event` of conditions and of the output. */
  value: Readonly<Record<string, unknown>>;
}

/** Returns an event of Belfry by its type and, if a vendor has sent it, by its name as well. */
export function arrivedEvents(event: Event, xact: string | null): ArrivedEvent[] {
  const { user_id: userId = null, broadcast_id: broadcastId = null, provider, event: name } = textsOf(event);
  const value = userId === null ? event : { ...event, user: { id: userId } };
  // A run need not have sent the broadcast that has created or changed a user.
  const isOfUser = event.type.startsWith('user.');
  const arrived = { userId, broadcastId: isOfUser ? null : broadcastId, xact, value };
  const own = { ...arrived, name: event.type };
  return event.type === 'integration.received'
    ? [own, { ...arrived, name: nameOfInbound(provider ?? '', name ?? '') }]
    : [own];
}

/** Returns the name of an event of an integration. It is the key of a workflow. */
export function nameOfInbound(provider: string, event: string): string {
  return `integration.${provider}.${event}`.replace(/[^A-Za-z0-9_.:-]/g, '_');
}

function textsOf({ context = {} }: Event): Record<string, string | undefined> {
  return Object.fromEntries(
    Object.entries(context).flatMap(([name, value]) => (typeof value === 'string' ? [[name, value]] : [])),
  );
}
