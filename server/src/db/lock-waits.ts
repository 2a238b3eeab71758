import { setTimeout as delay } from 'node:timers/promises';
import { type Queryable, sql } from './client.ts';

const LOOK_EVERY_MS = 200;

/** Looks what the connection `pid` waits for, and calls `onWait` with each new finding. */
export function watchLocks({
  observer,
  pid,
  onWait,
}: {
  observer: Queryable;
  pid: number;
  onWait: (finding: string) => void;
}): { stop(): Promise<void> } {
  const stopping = new AbortController();
  let last = '';
  const look = async () => {
    while (!stopping.signal.aborted) {
      const blockers = await observer.query<Blocker>(selectBlockers, [pid]).catch(() => []);
      const key = JSON.stringify(blockers.map((blocker) => [blocker.pid, blocker.relation]));
      if (blockers.length > 0 && key !== last) {
        last = key;
        onWait(blockers.map(describe).join(' and '));
      }
      await delay(LOOK_EVERY_MS, undefined, { signal: stopping.signal }).catch(() => undefined);
    }
  };
  const looking = look();
  return {
    async stop() {
      stopping.abort();
      await looking;
    },
  };
}

interface Blocker {
  pid: number;
  application: string | null;
  /** How long its transaction has been open. */
  seconds: number | null;
  /** What the connection waits for, if it is a table or an index. */
  relation: string | null;
}

function describe({ pid, application, seconds, relation }: Blocker): string {
  const name = application === null || application === '' ? 'unnamed' : application;
  const who =
    pid === 0 ? 'a prepared transaction' : `process ${pid} (${name}, in a transaction for ${seconds ?? 0} s)`;
  return relation === null ? `${who} to end it` : `a lock on ${relation} that ${who} holds`;
}

// Locks and connections, which are few.
const selectBlockers = sql(
  'select_lock_blockers',
  `select
    b.pid,
    a.application_name as application,
    extract(epoch from clock_timestamp() - a.xact_start)::int as seconds,
    (select relation::regclass::text from pg_locks where pid = $1 and not granted limit 1) as relation
  from unnest(pg_blocking_pids($1)) as b (pid)
  left join pg_stat_activity a on a.pid = b.pid
  order by b.pid`,
);
