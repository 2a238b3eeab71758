-- What users have said about topics: to what they are subscribed, and to what not.

create table subscriptions (
  user_id uuid not null,
  topic text collate "C" not null,
  -- the cursor of lists; a subscription keeps the one of its first save
  id uuid not null,
  project_id uuid not null,
  -- {category or '*': {"status": "subscribed" | "unsubscribed", "reason"?: text}}
  categories jsonb not null,
  primary key (user_id, topic)
);
create unique index subscriptions_listed on subscriptions (user_id, id);
-- A topic's subscribers in the order of users: a fan-out goes through them page by page.
create index subscriptions_of_topic on subscriptions (project_id, topic, user_id);

-- What failed of a broadcast: at its end it is counted and listed, however many users it has.
create index deliveries_failed on deliveries (broadcast_id) where state = 'failed';
