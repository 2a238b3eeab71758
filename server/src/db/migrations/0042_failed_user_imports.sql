-- What imports report about a user, for its export.
create index user_imports_failed on user_imports (project_id, id) where failed > 0;
