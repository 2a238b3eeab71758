import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';

const heapOf = (sockets: number) => `
  import { getHeapStatistics } from 'node:v8';
  import { returnUnusedMemory } from ${JSON.stringify(join(import.meta.dirname, 'memory.ts'))};
  const megabytes = () => getHeapStatistics().total_physical_size / 1024 / 1024;
  returnUnusedMemory();
  const idle = megabytes();
  let sockets = Array.from({ length: ${sockets} }, (_, index) => ({ index, text: 'socket ' + index }));
  const busy = megabytes();
  sockets = undefined;
  const deadline = Date.now() + 30_000;
  const timer = setInterval(() => {
    if (megabytes() > idle + 8 && Date.now() < deadline) return;
    clearInterval(timer);
    console.log(JSON.stringify({ grown: busy - idle, left: megabytes() - idle }));
  }, 50);
`;

test.each([
  { sockets: 400_000, megabytes: 20 },
  { sockets: 4_000_000, megabytes: 300 },
])('memory is returned when the process is idle after its heap has grown by $megabytes MB', async (of) => {
  const script = ['--input-type=module', '-e', heapOf(of.sockets)];
  const { stdout } = await promisify(execFile)(process.execPath, script);
  const { grown, left } = JSON.parse(stdout) as { grown: number; left: number };
  expect(grown).toBeGreaterThan(of.megabytes);
  expect(left).toBeLessThan(8.1);
});
