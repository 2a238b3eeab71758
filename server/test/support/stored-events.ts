import { PARTS } from '../../src/domain/ground/events/stored-types.ts';

/** SQL: the rows of events by type; a row that is stored for two types is two. */
export const STORED_EVENTS = `(
    select e.project_id, e.id, part.type, part.base, e.broadcast_id, e.broadcast_ids, e.user_ids, e.size, part.details
    from events e
    cross join ${PARTS}
  ) as stored_events`;
