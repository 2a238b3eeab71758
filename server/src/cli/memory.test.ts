import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';

const HEAP = `
  import { getHeapStatistics } from 'node:v8';
  import { returnUnusedMemory } from ${JSON.stringify(join(import.meta.dirname, 'memory.ts'))};
  const megabytes = () => getHeapStatistics().total_physical_size / 1024 / 1024;
  returnUnusedMemory();
  const idle = megabytes();
  let sockets = Array.from({ length: 400_000 }, (_, index) => ({ index, text: 'socket ' + index }));
  const busy = megabytes();
  sockets = undefined;
  const deadline = Date.now() + 7_000;
  const timer = setInterval(() => {
    if (megabytes() > idle + 8 && Date.now() < deadline) return;
    clearInterval(timer);
    console.log(JSON.stringify({ grown: busy - idle, left: megabytes() - idle }));
  }, 50);
`;

test('memory is returned when the process is idle after its heap has grown', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', HEAP]);
  const { grown, left } = JSON.parse(stdout) as { grown: number; left: number };
  expect(grown).toBeGreaterThan(20);
  expect(left).toBeLessThan(8.1);
});
