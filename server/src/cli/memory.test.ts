import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';

/** The size of a heap in MB: before it grew, with the objects that made it grow, and some time after them. */
interface Heap {
  idle: number;
  grown: number;
  left: number;
}

/**
 * Lets the heap of a process grow twice: once after its start, and once later. Waits each time until it is
 * small again, at most for a minute, or for `lastMs` the second time. Works for `pingMs` every four seconds.
 */
async function heapsOf({
  sockets,
  idleMs,
  lastMs,
  pingMs = 0,
}: {
  sockets: number;
  idleMs?: number;
  lastMs?: number;
  pingMs?: number;
}): Promise<[Heap, Heap]> {
  const script = `
  import { setTimeout as delay } from 'node:timers/promises';
  import { getHeapStatistics } from 'node:v8';
  import { returnUnusedMemory } from ${JSON.stringify(join(import.meta.dirname, 'memory.ts'))};
  const megabytes = () => getHeapStatistics().total_physical_size / 1024 / 1024;
  const fill = () => Array.from({ length: ${sockets} }, (_, index) => ({ index, text: 'socket ' + index }));
  returnUnusedMemory(${JSON.stringify({ idleMs })});
  setInterval(() => {
    const startedMs = performance.now();
    while (performance.now() < startedMs + ${pingMs});
  }, 4_000).unref();
  const heaps = [];
  for (const waitMs of [60_000, ${lastMs ?? 60_000}]) {
    const idle = megabytes();
    let sockets = fill();
    const grown = megabytes();
    sockets = undefined;
    const deadline = performance.now() + waitMs;
    while (megabytes() > idle + 8 && performance.now() < deadline) await delay(50);
    heaps.push({ idle, grown, left: megabytes() });
  }
  console.log(JSON.stringify(heaps));
  `;
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script]);
  return JSON.parse(stdout) as [Heap, Heap];
}

test.each([
  { sockets: 400_000, megabytes: 20 },
  { sockets: 4_000_000, megabytes: 300 },
])('memory is returned when the process is idle after its heap has grown by $megabytes MB', async (of) => {
  for (const { idle, grown, left } of await heapsOf({ ...of, idleMs: 1_000 })) {
    expect(grown - idle).toBeGreaterThan(of.megabytes);
    expect(left - idle).toBeLessThan(8.1);
  }
});

test('memory is returned although the process works for a moment now and then', async () => {
  // More than a twentieth of the time between two checks.
  const [, { idle, grown, left }] = await heapsOf({
    sockets: 400_000,
    idleMs: 6_000,
    lastMs: 12_000,
    pingMs: 30,
  });
  expect(grown - idle).toBeGreaterThan(20);
  expect(left - idle).toBeLessThan(8.1);
});

test('a short pause of a busy process is no reason to collect', async () => {
  const [start, pause] = await heapsOf({ sockets: 400_000, lastMs: 3_000 });
  expect(start.left - start.idle).toBeLessThan(8.1);
  expect(pause.left - pause.idle).toBeGreaterThan(20);
});
