import { writeFileSync } from 'node:fs';

// Loaded into a server by support/heap.ts: on SIGUSR2 it collects garbage and writes the bytes of the heap.

const { BENCH_HEAP_FILE } = process.env;
if (BENCH_HEAP_FILE !== undefined)
  process.on('SIGUSR2', () => {
    globalThis.gc?.();
    writeFileSync(BENCH_HEAP_FILE, `${process.memoryUsage().heapUsed}\n`);
  });
