import type { EventType } from '../../contract/event.ts';

/**
 * Two events of the same users, stored as one row: their notifications were created, and the inbox showed them at once.
 * The events of the second type are numbered after those of the first.
 */
export const CREATED_AND_SENT = 'notification.created+delivery.sent';

/** The types of the events of a row that is stored under `storedType`, in the order of their numbers. */
function typesStoredAs(storedType: string): EventType[] {
  return storedType.split('+') as EventType[];
}

/** For each of these types what rows with events of it are stored as; a type may be listed twice. */
export function whereStored(types: readonly EventType[]): { type: EventType; stored: string }[] {
  return types.flatMap((type) => [
    { type, stored: type },
    ...(typesStoredAs(CREATED_AND_SENT).includes(type) ? [{ type, stored: CREATED_AND_SENT }] : []),
  ]);
}

/** How many events a row stands for, of which `size` are of each type. */
export function countOf({ type, size }: { type: string; size: number }): number {
  return size * typesStoredAs(type).length;
}

/** The numbers of those events of a row that are of `types`, or all of them where `types` is left out. */
export function numbersOf(
  { type: storedType, size }: { type: string; size: number },
  types: readonly EventType[] | undefined,
): number[] {
  return typesStoredAs(storedType).flatMap((type, place) =>
    types === undefined || types.includes(type)
      ? Array.from({ length: size }, (_, index) => place * size + index)
      : [],
  );
}

/**
 * SQL: the parts of a row `e` of events, one for each of its types. `base` is the number of the first event of the part.
 * The `details` of a row with several types are those of the last.
 */
export const PARTS = `lateral (
    select p.type, (p.place - 1)::int * e.size as base,
      case when e.type like '%' || p.type then e.details end as details
    from unnest(string_to_array(e.type, '+')) with ordinality as p (type, place)
  ) part`;
