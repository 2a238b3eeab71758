-- What is left of a delivery to several devices, browsers or chats after an attempt, which may be `sent`
-- already: the targets, by the ids of their tokens, and what became of the others. Written with the outcome,
-- so that a crash repeats none that were done.
alter table deliveries add column progress json;
