/**
 * SQL: the stored events, one row for each type. Of a row with two types, only the second has the details.
 */
export const STORED_EVENTS = `(
    select e.project_id, e.id, part.type, part.place, e.broadcast_id, e.broadcast_ids, e.user_ids, e.size,
      case when part.type = split_part(e.type, '+', -1) then e.details end as details
    from events e
    cross join unnest(string_to_array(e.type, '+')) with ordinality as part (type, place)
  ) as stored_events`;
