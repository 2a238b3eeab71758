// Run by hand: node server/test/support/embedded-stress.ts [rounds]. Kills the database or its parent process
// with -9 during inserts, and checks that no acknowledged row is lost.
import pg from 'pg';
import type { EmbeddedConnection } from '../../src/db/embedded.ts';
import { makeDir, query, removeDirs, runs, startParent, until } from './embedded-cases.ts';

const rounds = Number(process.argv[2] ?? 20);
const WRITERS = 4;
const print = (line: string): void => void process.stdout.write(`${line}\n`);

const dataDir = makeDir('stress');
const acknowledged: number[] = [];
let next = 0;
let parent = startParent({ dataDir });
const { connection } = await parent.ready;
await query(connection, 'create table stress (number integer primary key)');
const outagesMs = { server: [] as number[], belfry: [] as number[] };

for (let round = 1; round <= rounds; round += 1) {
  const victim = round % 2 === 0 ? 'server' : 'belfry';
  const writers = Array.from({ length: WRITERS }, () => write(connection));
  const goal = acknowledged.length + 500 + Math.random() * 3_000;
  await until('rows are written', () => acknowledged.length > goal);
  const killedAt = performance.now();
  if (victim === 'server') {
    const [row] = await query(connection, 'select pg_read_file($1) as lock', ['postmaster.pid']);
    const pid = Number.parseInt(String(row?.lock), 10);
    process.kill(pid, 'SIGKILL');
    await until('the server is gone', () => !runs(pid));
  } else {
    await parent.kill('SIGKILL');
    parent = startParent({ dataDir });
    await parent.ready;
  }
  await Promise.all(writers);
  await until('it works again', () => query(connection, 'select 1').catch(() => undefined));
  outagesMs[victim].push(Math.round(performance.now() - killedAt));
  const rows = await query(
    connection,
    'select number from unnest($1::int[]) number except select number from stress',
    [acknowledged],
  );
  print(`round ${round}, ${victim} killed: ${acknowledged.length} acknowledged, ${rows.length} lost`);
  if (rows.length > 0) throw new Error(`lost: ${rows.map(({ number }) => number).join(' ')}`);
}
await parent.kill('SIGTERM');
removeDirs();
for (const [victim, times] of Object.entries(outagesMs)) {
  const sorted = times.sort((a, b) => a - b);
  print(`${victim} killed: out for ${sorted[sorted.length >> 1]} ms (median), ${sorted.at(-1)} ms (longest)`);
}
print(`${rounds} kills, ${acknowledged.length} acknowledged rows, 0 lost`);

/** Inserts one row after the other until the connection breaks. */
async function write(to: EmbeddedConnection): Promise<void> {
  const client = new pg.Client(to);
  client.on('error', () => undefined);
  try {
    await client.connect();
    for (;;) {
      const number = next++;
      await client.query('insert into stress values ($1)', [number]);
      acknowledged.push(number);
    }
  } catch {
    await client.end().catch(() => undefined);
  }
}
