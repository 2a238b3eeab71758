import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { until } from './belfry.ts';

const REPORTER = join(import.meta.dirname, '..', 'processes', 'report-heap.ts');

/** Measures what a server holds in its heap after a garbage collection. The caller closes it. */
export interface HeapReader {
  /** Options for the server's Node. */
  nodeArguments: readonly string[];
  settings: Readonly<Record<string, string>>;
  read(pid: number): Promise<number>;
  close(): void;
}

export function heapReader(): HeapReader {
  const directory = mkdtempSync(join(tmpdir(), 'belfry-bench-heap-'));
  const file = join(directory, 'heap');
  const text = () => {
    try {
      return readFileSync(file, 'utf8');
    } catch {
      return ''; // not written yet
    }
  };
  return {
    nodeArguments: ['--expose-gc', '--import', REPORTER],
    settings: { BENCH_HEAP_FILE: file },
    async read(pid) {
      rmSync(file, { force: true });
      process.kill(pid, 'SIGUSR2');
      await until('the heap is measured', async () => text().endsWith('\n'));
      return Number(text());
    },
    close: () => rmSync(directory, { recursive: true }),
  };
}
