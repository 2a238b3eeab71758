-- Whether users of the v1 API must prove who they are by an HMAC. API keys are public, and external ids can
-- be guessed.
alter table projects add column hmac_required boolean not null default true;
