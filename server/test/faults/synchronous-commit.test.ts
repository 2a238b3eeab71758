import { rm } from 'node:fs/promises';
import { expect, onTestFinished, test } from 'vitest';
import { descendants, kill, postmasterOf } from '../support/belfry-process.ts';
import { newDataDir } from '../support/data-dir.ts';
import { expectExactlyOnce, load } from '../support/faults.ts';
import { startTestService } from '../support/service.ts';

const KILLS = 3;

test.runIf(process.platform === 'linux')(
  'an asynchronous database loses no accepted broadcast when it is killed',
  async () => {
    const dataDir = await newDataDir('commit');
    onTestFinished(() => rm(dataDir, { recursive: true, force: true }));
    const service = await startTestService({ settings: { DATA_DIR: dataDir, DATABASE_URL: '' } });
    onTestFinished(() => service.stop());
    const admin = await service.context.db.connect();
    await admin.query('alter database postgres set synchronous_commit = off');
    // Asynchronous commits reach the disk late, so that a kill would lose some.
    await admin.query("alter system set wal_writer_delay = '10s'");
    await admin.query("alter system set wal_writer_flush_after = '1GB'");
    await admin.end();
    await service.restart();

    const running = load(service.project, { clients: 8 });
    for (let round = 1; round <= KILLS; round += 1) {
      await running.accepted(20 * round);
      for (const pid of descendants(postmasterOf(dataDir))) kill(pid, 'SIGKILL');
    }
    await running.accepted(20 * (KILLS + 1));
    await running.stop();
    const shown = await service.rows<{ value: string }>(
      "select current_setting('synchronous_commit') as value",
    );
    expect(shown).toEqual([{ value: 'on' }]);
    await expectExactlyOnce(service, running);
  },
);
