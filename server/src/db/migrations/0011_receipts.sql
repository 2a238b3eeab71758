-- What Slack reports of the server's own app names a workspace, and no project.

create index installations_by_id on installations (provider, id);
