-- How many of a broadcast's pages of users, from the first on, have nobody left who is not erased: whether
-- anybody has it still is asked from there on (domain/after/erasure/erase-content.ts). Null: nothing is known
-- yet. Erased users do not come back, so it only grows.
alter table broadcasts add column erased_pages integer;
