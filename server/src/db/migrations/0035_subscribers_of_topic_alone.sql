-- Replaced by subscribers_of_topic. An insert pays for as many indexes as before.
drop index subscriptions_of_topic;
