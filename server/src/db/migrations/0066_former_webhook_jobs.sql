-- oldest program: 52

-- Programs before schema 30 queued messages to webhooks with another kind, and with the webhook in place of
-- the project. Index jobs_of_webhooks.
-- safe because no program since schema 30 writes or reads these jobs
update jobs j
set kind = 'send_webhook',
  partition_key = j.project_id,
  project_id = coalesce((select w.project_id from webhooks w where w.id = j.project_id), j.project_id)
where j.kind = 'webhook';
