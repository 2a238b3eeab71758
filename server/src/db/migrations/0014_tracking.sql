-- Tracking: whether a project wants to know of opens and clicks, and what is known of each delivery.

create table tracking (
  project_id uuid primary key,
  opens boolean not null,
  clicks boolean not null
);

-- The first of each, and how many. Of a delivery that the inbox alone is, they stand with the notification.
alter table deliveries
  add column opened_at timestamptz,
  add column opens integer not null default 0,
  add column clicked_at timestamptz,
  add column clicks integer not null default 0;
alter table notifications
  add column clicked_at timestamptz,
  add column clicks integer;

-- The clicks of a user: the address of a link may say something about whoever followed it.
create index events_of_clicks on events (user_ids) where type = 'delivery.clicked';
