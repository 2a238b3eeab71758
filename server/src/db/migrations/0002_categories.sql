-- What a project decided about its categories: on which channels they go out, when, and on what condition.

create table categories (
  project_id uuid not null,
  key text collate "C" not null,
  -- the cursor of lists; a category keeps the one of its first save
  id uuid not null,
  -- as it was saved
  config json not null,
  updated_at timestamptz not null,
  primary key (project_id, key)
);
create unique index categories_listed on categories (project_id, id);

-- Preferences about broadcasts without a category stand under the empty text, which is no category's name.
update preferences set category = '' where category = 'uncategorized';

-- The categories, and channels of them, that some user of a project has switched off. A fan-out looks for
-- users' preferences only where there is a row here.
create table preference_categories (
  project_id uuid not null,
  category text collate "C" not null,
  channel text not null,
  primary key (project_id, category, channel)
);
insert into preference_categories (project_id, category, channel)
select distinct u.project_id, p.category, p.channel
from preferences p
join users u on u.id = p.user_id
where not p.enabled;
