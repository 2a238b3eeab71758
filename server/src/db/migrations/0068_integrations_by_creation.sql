-- oldest program: 52
-- no transaction

-- Lists of integrations are in the order of their creation, and projects may choose the ids.
create index concurrently if not exists integrations_listed on integrations (project_id, created_at, id);
