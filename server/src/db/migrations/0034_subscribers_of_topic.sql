-- The subscribers of a topic, without users that left it: fan-outs page through them, and they are listed and
-- counted from this index alone. Replaces subscriptions_of_topic, which the next migration drops. In a
-- migration of its own, so that broadcasts to topics continue while it is built.
create index subscribers_of_topic on subscriptions (project_id, topic, user_id)
  where categories @? '$.*.status ? (@ == "subscribed")';
