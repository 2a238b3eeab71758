-- The ids of the keys with which a running server opens secrets: belfry reseal must seal nothing that one of
-- them could not open. null: a server of an earlier release.
alter table leases add column key_ids text[];
