-- Delivery windows: at what times messages go out; at others they wait.

create table project_delivery_windows (
  project_id uuid primary key,
  -- as it was saved; the default where only users have said something
  config json not null default '{"channels":[]}',
  -- Some user of the project has windows, or a time zone, of their own. Before, nobody's are looked for.
  of_users boolean not null default false
);

create table user_delivery_windows (
  user_id uuid primary key,
  config json not null
);
