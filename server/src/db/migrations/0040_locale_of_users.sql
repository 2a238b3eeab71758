-- The language of the user: a BCP 47 tag in canonical form.
alter table users add column locale text;
