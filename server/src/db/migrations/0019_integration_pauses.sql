-- Which integrations are paused, because their provider refuses them or does not answer: open circuit
-- breakers. A row is written when one opens, opens again after a probe that failed, or closes; never for each
-- message. `party` is the downstream host or workspace where only that is concerned, else empty. `version` is
-- the `updated_at` of the config that it is about.
create table integration_pauses (
  project_id uuid not null,
  integration_id uuid not null,
  party text not null,
  version timestamptz not null,
  since timestamptz not null,
  until timestamptz not null,
  code text,
  reason text not null,
  primary key (project_id, integration_id, party),
  foreign key (integration_id, project_id) references integrations (id, project_id) on delete cascade
);
