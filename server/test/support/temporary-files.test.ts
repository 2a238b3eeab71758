import { existsSync } from 'node:fs';
import { mkdir, readlink, rm, writeFile } from 'node:fs/promises';
import { expect, onTestFinished, test } from 'vitest';
import { keepTemporaryFilesInMemory } from './temporary-files.ts';

test.skipIf(!process.env.TMPDIR?.startsWith('/dev/shm/belfry-'))(
  'files of killed runs are deleted, but not those of other containers',
  async ({ skip }) => {
    const before = process.env.TMPDIR;
    onTestFinished(() => {
      process.env.TMPDIR = before;
    });
    const namespace = (await readlink('/proc/self/ns/pid')).replace(/\D/g, '');
    const ended = 2 ** 30; // more than the ids of processes
    const [killed, own, other] = [`${namespace}-${ended}`, `${namespace}-${process.pid}`, `1-${ended}`].map(
      (name) => `/dev/shm/belfry-${name}`,
    ) as [string, string, string];
    for (const folder of [killed, own, other]) {
      onTestFinished(() => rm(folder, { recursive: true, force: true }));
      await mkdir(folder);
      await writeFile(`${folder}/file`, '');
    }
    delete process.env.TMPDIR;
    const deleteFiles = await keepTemporaryFilesInMemory();
    skip(process.env.TMPDIR === undefined, 'other tests need the memory now');
    expect(process.env.TMPDIR).toBe(own);
    expect([killed, `${own}/file`, other].map((path) => existsSync(path))).toEqual([false, false, true]);
    await deleteFiles();
    expect(existsSync(own)).toBe(false);
  },
);
