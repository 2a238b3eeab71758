import type { EventType } from '../../../contract/event.ts';

/**
 * Two events of the same users, stored as one row: their notifications were created, and the inbox showed
 * them at once. The events of the second type are numbered after those of the first.
 */
export const CREATED_AND_SENT = 'notification.created+delivery.sent';

/** The types of the events of a row that is stored under `storedType`, in the order of their numbers. */
function typesStoredAs(storedType: string): EventType[] {
  return storedType.split('+') as EventType[];
}

/**
 * For each of these types what rows with events of it are stored as, and its place among the types of such a
 * row.
 */
export function whereStored(types: readonly EventType[]): { stored: string; place: number }[] {
  const both = typesStoredAs(CREATED_AND_SENT);
  return types.flatMap((type) => [
    { stored: type, place: 0 },
    ...(both.includes(type) ? [{ stored: CREATED_AND_SENT, place: both.indexOf(type) }] : []),
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
 * SQL: the parts of a row `e` of events: one, or two where it is stored for two types. `base` is the number
 * of the first event of the part. The `details` of a row with two types are those of the second. Two constant
 * rows instead of `unnest(string_to_array(…))`, which made lists of events take half as long again.
 */
export const PARTS = `lateral (
    select split_part(e.type, '+', 1) as type, 0 as base, case when strpos(e.type, '+') = 0 then e.details end as details
    union all
    select split_part(e.type, '+', 2), e.size::int, e.details where strpos(e.type, '+') > 0
  ) part`;
