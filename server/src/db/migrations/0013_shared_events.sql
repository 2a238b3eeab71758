-- One row of events for what happened to several broadcasts at once: see domain/ground/events/record.ts.

-- The broadcast of each event of a row; null where all are of broadcast_id, or of none.
alter table events add column broadcast_ids uuid[];
alter table events drop column size;
alter table events add column size smallint not null
  generated always as (greatest(cardinality(user_ids), cardinality(broadcast_ids), 1)) stored;
