-- oldest program: 52
-- no transaction

-- Finds users by their last visit, for the list of v1 (domain/people/users/list-numbered.ts). Users that were
-- never seen have no entry, so an import writes none.
create index concurrently if not exists users_by_visit on users (project_id, last_seen_at, id)
where deleted_at is null and last_seen_at is not null;
