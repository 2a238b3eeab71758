import type { EventType } from '../../../contract/event.ts';

/**
 * Two events for each user, stored as one row: the notification was created, and delivered to the inbox at
 * once. The events of the second type are numbered after those of the first.
 */
export const CREATED_AND_SENT = 'notification.created+delivery.sent';

/** SQL: how many types a row `e` of events has; it contains `size` events of each. */
export const TYPES_OF_ROW = `case e.type when '${CREATED_AND_SENT}' then 2 else 1 end`;

/** Returns the event types of a row, in the order of their numbers. */
export function typesOfRow(storedType: string): EventType[] {
  return storedType.split('+') as EventType[];
}

/** Returns the stored types of the rows that contain events of these types. */
export function storedTypes(types: readonly EventType[]): string[] {
  const isShared = typesOfRow(CREATED_AND_SENT).some((type) => types.includes(type));
  return isShared ? [...types, CREATED_AND_SENT] : [...types];
}

/** Returns how many events a row contains. */
export function countOf({ type, size }: { type: string; size: number }): number {
  return size * typesOfRow(type).length;
}

/** Returns the numbers of a row's events of these types, or of all types: `from` to `to - 1`. */
export function numbersOf(
  { type, size }: { type: string; size: number },
  types: readonly EventType[] | undefined,
): { from: number; to: number } {
  const isWanted = typesOfRow(type).map((one) => types === undefined || types.includes(one));
  const from = isWanted.indexOf(true);
  return from < 0 ? { from: 0, to: 0 } : { from: from * size, to: (isWanted.lastIndexOf(true) + 1) * size };
}
