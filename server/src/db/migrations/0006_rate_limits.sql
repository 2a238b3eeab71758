-- Rate limits that all nodes of one database share. What was counted in the last minute is no loss after a
-- crash: unlogged, so that counting costs no log and no flush.
create unlogged table rate_windows (
  name text collate "C" primary key,
  second bigint not null,            -- the newest second that was counted, in unix time
  counts integer[] not null,         -- places taken by second: those of second s at position s % 60 + 1
  held jsonb not null default '{}'   -- node → [second, places]: taken then, and not known to be used
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);

-- Takes up to `wanted` of the places that `allowed` leaves in the minute that ends with second `at`, for a
-- node, which gives back those that it took in second `back_at` and did not use. Never more than a quarter of
-- what is left, so that the last places are taken one by one and no node sits on them. Locks the window's
-- row, so that nodes count one after another.
create function rate_take(
  window_name text, node text, at bigint, allowed integer, wanted integer, back integer, back_at bigint,
  out granted integer, out free integer, out others integer, out oldest bigint
) language plpgsql as $$
declare
  w rate_windows;
  total integer;
begin
  insert into rate_windows (name, second, counts)
  values (window_name, at, array_fill(0, array[60]))
  on conflict do nothing;
  select * into strict w from rate_windows where name = window_name for update;
  -- A node whose clock is behind counts in the newest second; not where that is more than a minute ahead,
  -- from a clock that has been put right since: nothing would fall free until that time has come.
  if at > w.second - 60 then
    at := greatest(at, w.second);
  end if;
  if abs(at - w.second) >= 60 then
    w.counts := array_fill(0, array[60]);
    w.held := '{}';
  else
    for passed in w.second + 1 .. at loop
      w.counts[passed % 60 + 1] := 0;
    end loop;
  end if;
  if back > 0 and abs(at - back_at) < 60 then
    w.counts[back_at % 60 + 1] := greatest(0, w.counts[back_at % 60 + 1] - back);
  end if;
  select sum(n), min(case when n > 0 then at - (at - (place - 1)) % 60 end)
    into total, oldest
  from unnest(w.counts) with ordinality as u (n, place);
  free := greatest(0, allowed - total);
  granted := least(wanted, case when free = 0 then 0 else greatest(1, free / 4) end);
  if granted > 0 then
    w.counts[at % 60 + 1] := w.counts[at % 60 + 1] + granted;
    oldest := coalesce(oldest, at);
  end if;
  w.held := case when granted > 1 then w.held || jsonb_build_object(node, jsonb_build_array(at, granted - 1)) else w.held - node end;
  select coalesce(sum((one.value ->> 1)::integer), 0) into others
  from jsonb_each(w.held) as one
  where one.key <> node and (one.value ->> 0)::bigint >= at - 2;
  free := free - granted;
  update rate_windows
  set second = at, counts = w.counts, held = w.held
  where name = window_name;
end
$$;
