-- oldest program: 52

-- Logical replication needs a way to identify each row, and moves schemas between the servers of a
-- distributed PostgreSQL. This table has no primary key: a row may be changed often during the move of a
-- project, and rows with the same values may be deleted together.
-- safe because it changes only the catalog, and the table is empty unless a project moves
alter table changed_rows replica identity full;
