import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';

const HEAP = `
  import { getHeapStatistics } from 'node:v8';
  import { giveBackMemory } from ${JSON.stringify(join(import.meta.dirname, 'give-back-memory.ts'))};
  const megabytes = () => getHeapStatistics().total_physical_size / 1024 / 1024;
  giveBackMemory();
  const atRest = megabytes();
  let crowd = Array.from({ length: 400_000 }, (_, index) => ({ index, text: 'socket ' + index }));
  const busy = megabytes();
  crowd = undefined;
  const deadline = Date.now() + 7_000;
  const timer = setInterval(() => {
    if (megabytes() > atRest + 8 && Date.now() < deadline) return;
    clearInterval(timer);
    console.log(JSON.stringify({ grown: busy - atRest, left: megabytes() - atRest }));
  }, 50);
`;

test('what a crowd leaves behind is given back when there is nothing else to do', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', HEAP]);
  const { grown, left } = JSON.parse(stdout) as { grown: number; left: number };
  expect(grown).toBeGreaterThan(20);
  expect(left).toBeLessThan(8.1);
}, 40_000);
