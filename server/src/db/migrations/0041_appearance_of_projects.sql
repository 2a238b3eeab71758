-- How users see a project: its name if it differs, its logo, and the language for users without one.
alter table projects
  add column display_name text,
  add column logo_url text,
  add column default_locale text;
