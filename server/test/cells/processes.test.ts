import { createSecretKey } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { sql } from '../../src/db/client.ts';
import { listCells } from '../../src/domain/setup/cells/cells.ts';
import { createLogger } from '../../src/lib/log.ts';
import { openCell } from '../../src/open.ts';
import { kill, startBelfry, withDatabaseOf } from '../support/belfry-process.ts';
import { runCommand } from '../support/cli.ts';
import { newDataDir } from '../support/data-dir.ts';
import { expectExactlyOnce, load, messageIdOf, saveSmtp, settled } from '../support/faults.ts';
import { hs256 } from '../support/jwt.ts';
import { openStream, openStreamSocket, titles } from '../support/realtime.ts';
import { caller, until } from '../support/service.ts';
import { startSmtpStandIn } from '../support/smtp-stand-in.ts';

test('a cell on a node of several processes loses and doubles nothing when they are killed', async ({
  onTestFinished: undo,
}) => {
  const dataDir = await newDataDir('cells');
  undo(() => rm(dataDir, { recursive: true, force: true }));
  const smtp = await startSmtpStandIn();
  undo(() => smtp.stop());
  const run = async (...args: string[]) => {
    const { code, out, err } = await runCommand([...args, '--json'], { DATA_DIR: dataDir });
    expect({ code, err }).toEqual({ code: 0, err: '' });
    return JSON.parse(out);
  };
  const settings = { PROCESSES: '3', LOG_LEVEL: 'info' };
  const belfry = await startBelfry(dataDir, settings);
  undo(() => belfry.killTree());
  await run('cell', 'add', 'one');
  await run('cell', 'add', 'two'); // without projects
  const { project_jwt: token, api_key, api_secret } = await run('project', 'create', 'shop', '--cell', 'one');
  const call = caller(() => belfry.address, token, { withinMs: 30_000 });
  await until(
    async () => (await call('GET', '/broadcasts')).status,
    (status) => status === 200,
  );
  await saveSmtp({ call }, smtp);

  const jwt = hs256({ api_key, user_external_id: 'watcher' }, createSecretKey(Buffer.from(api_secret)));
  const stream = await openStream(`${belfry.address}/v2/notifications/stream`, { jwt });
  const socket = await openStreamSocket(belfry.address, { jwt });
  undo(async () => stream.source.close());
  await call('POST', '/broadcasts', { title: 'live', recipients: [{ external_id: 'watcher' }] });
  for (const { frames } of [stream, socket]) await expect.poll(() => titles(frames)).toContain('live');

  const running = load({ call }, { clients: 4 });
  await running.accepted(30);
  const [first] = [...belfry.output].flatMap((line) => {
    if (!line.startsWith('{')) return [];
    const { msg, process, pid } = JSON.parse(line);
    return msg === 'process started' && process === 1 ? [Number(pid)] : [];
  });
  if (first === undefined) throw new Error('the first process has not started');
  kill(first, 'SIGKILL');
  await running.accepted(90); // the process that replaces it opens all cells first
  belfry.signal('SIGKILL'); // the supervisor, and with it all others
  await running.refusedOrCut(20);
  await running.stop();
  await until(
    () => belfry.tree(),
    (pids) => pids.length === 0,
  );

  const again = await startBelfry(dataDir, settings);
  undo(() => again.killTree());
  await until(
    async () => (await caller(() => again.address, token)('GET', '/broadcasts')).status,
    (status) => status === 200,
  );
  await settled(again);
  again.signal('SIGTERM');
  expect(await again.ended).toBe(0);
  await withDatabaseOf(dataDir, async (main) => {
    const log = createLogger({ level: 'silent' });
    const [cell] = await listCells(main.db);
    if (cell === undefined) throw new Error('there is no cell');
    const opened = await openCell(main, cell, { role: 'client', log });
    try {
      await expectExactlyOnce({ context: opened }, running);
      const rows = await opened.db.query<{ id: string }>(
        sql(
          '',
          'select n.id from notifications n join users u on u.id = n.user_id where u.email is not null',
        ),
      );
      const ids = new Set(smtp.received.map(messageIdOf));
      expect(rows.filter(({ id }) => !ids.has(id))).toEqual([]);
      expect(ids.size).toBe(rows.length);
      expect(await opened.db.query(sql('', 'select id from leases'))).toEqual([]);
    } finally {
      await opened.close();
    }
    // Nothing of it is in the default cell.
    expect(await main.db.query(sql('', 'select id from broadcasts'))).toEqual([]);
  });
});
