-- Finds users by the beginning of a word of their names (domain/people/users/list.ts): of the whole name, of
-- the last name, and of the second and third words of both. "C": in the order of bytes. Users without names
-- have no entry, and most with names have two. In a migration of its own: while the indexes are built, users
-- can be read.
create index users_by_name on users
  (project_id, (lower(first_name || ' ' || coalesce(last_name, '')) collate "C"))
  where deleted_at is null and first_name is not null;
create index users_by_last_name on users
  (project_id, (lower(last_name) collate "C"))
  where deleted_at is null and last_name is not null;
create index users_by_second_first_name on users
  (project_id, (lower(split_part(first_name, ' ', 2)) collate "C"))
  where deleted_at is null and first_name like '% %';
create index users_by_third_first_name on users
  (project_id, (lower(split_part(first_name, ' ', 3)) collate "C"))
  where deleted_at is null and first_name like '% % %';
create index users_by_second_last_name on users
  (project_id, (lower(split_part(last_name, ' ', 2)) collate "C"))
  where deleted_at is null and last_name like '% %';
create index users_by_third_last_name on users
  (project_id, (lower(split_part(last_name, ' ', 3)) collate "C"))
  where deleted_at is null and last_name like '% % %';
