-- oldest program: 52
-- no transaction

-- Finds tokens that were discarded long ago (domain/after/erasure/retention.ts). A client that saves a new
-- token with each page leaves one behind each time.
create index concurrently if not exists tokens_discarded on tokens (discarded_at)
where discarded_at is not null;
