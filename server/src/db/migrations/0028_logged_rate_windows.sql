-- The windows of rate limits outlive a crash, and lie in an ordinary table: a distributed PostgreSQL moves no
-- unlogged ones. The table has a row for each caller of the last minutes.
alter table rate_windows set logged;
