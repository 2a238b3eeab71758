-- Messages of a webhook that stand in jobs are counted where they are, and not in the webhook's row: that
-- made those who read its feed and those who record its outcomes wait for each other. webhooks.pending is no
-- longer used; a later release drops it, because servers of the release before still write it.
create index jobs_of_webhooks on jobs (project_id) where kind = 'webhook';
