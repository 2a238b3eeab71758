-- What the queue is fair over, where that is not the project: the webhook, for messages of webhooks. Until now
-- such jobs had the webhook in place of the project. They have a new kind, `send_webhook`, because servers of
-- the previous release would send a batch of jobs of one project to one webhook. Jobs of the kind `webhook`,
-- which those servers still write, are converted (domain/after/webhooks/relay.ts).
alter table jobs add column partition_key uuid;
