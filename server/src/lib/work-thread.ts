import { getHeapStatistics } from 'node:v8';
import { parentPort, Worker } from 'node:worker_threads';

/** What a thread is sent. */
interface SentTask<Task> {
  id: number;
  task: Task;
}

/** What it sends back. */
type SentResult<Result> = { id: number } & ({ result: Result } | { failed: Error });

/** The thread ended before its work was done: it had no memory left, or was closed. */
export class ThreadEnded extends Error {}

// An idle thread holds some 20 MB, and what its heap has grown to.
const IDLE_MS = 10_000;

/**
 * A thread for work that would block the event loop. It is started for the first task, and stopped when there
 * are none for a while.
 */
export class WorkThread<Task, Result> {
  readonly #main: URL;
  readonly #maxHeapMb: number;
  #worker: Worker | undefined;
  #idle: NodeJS.Timeout | undefined;
  #nextId = 0;
  readonly #waiting = new Map<number, PromiseWithResolvers<Result> & { worker: Worker }>();

  /** `main` is the module of the thread: it calls `serveTasks`. */
  constructor(main: URL, maxHeapMb: number) {
    this.#main = main;
    this.#maxHeapMb = maxHeapMb;
  }

  /**
   * Resolves with the result of the task. Rejects with the error of the task or of the thread, or with
   * ThreadEnded. The buffers in `transfer` must not be used any more.
   */
  run(task: Task, transfer: readonly ArrayBuffer[] = []): Promise<Result> {
    const worker = this.#start();
    const id = this.#nextId++;
    clearTimeout(this.#idle);
    try {
      worker.postMessage({ id, task } satisfies SentTask<Task>, transfer);
    } catch (error) {
      this.#endWhenIdle(); // the task cannot be copied
      throw error;
    }
    const waiting = Promise.withResolvers<Result>();
    this.#waiting.set(id, { ...waiting, worker });
    return waiting.promise;
  }

  async close(): Promise<void> {
    clearTimeout(this.#idle);
    // What comes while it ends is for another one.
    const worker = this.#worker;
    this.#worker = undefined;
    await worker?.terminate();
  }

  #start(): Worker {
    if (this.#worker !== undefined) return this.#worker;
    const heapMb = Math.floor(getHeapStatistics().heap_size_limit / 2 ** 20);
    const worker = new Worker(this.#main, {
      execArgv: [],
      resourceLimits: { maxOldGenerationSizeMb: Math.min(heapMb, this.#maxHeapMb) },
    });
    worker.unref(); // the requests that wait for it keep the process alive
    worker.on('message', (result: SentResult<Result>) => this.#onResult(result));
    let fault: Error | undefined;
    worker.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'ERR_WORKER_OUT_OF_MEMORY') fault = error;
    });
    worker.on('exit', () => this.#onExit(worker, fault)); // follows `error`
    this.#worker = worker;
    return worker;
  }

  #onResult(sent: SentResult<Result>): void {
    const waiting = this.#waiting.get(sent.id);
    this.#waiting.delete(sent.id);
    this.#endWhenIdle();
    if ('failed' in sent) waiting?.reject(sent.failed);
    else waiting?.resolve(sent.result);
  }

  #endWhenIdle(): void {
    if (this.#waiting.size === 0) this.#idle = setTimeout(() => void this.close(), IDLE_MS).unref();
  }

  #onExit(worker: Worker, fault: Error | undefined): void {
    if (this.#worker === worker) this.#worker = undefined;
    for (const [id, waiting] of this.#waiting) {
      if (waiting.worker !== worker) continue;
      this.#waiting.delete(id);
      waiting.reject(fault ?? new ThreadEnded('the thread ended before its work was done'));
    }
  }
}

/** Does the tasks that this thread is sent. */
export function serveTasks<Task, Result>(
  work: (task: Task) => Promise<{ result: Result; transfer?: ArrayBuffer[] }>,
): void {
  parentPort?.on('message', async ({ id, task }: SentTask<Task>) => {
    try {
      const { result, transfer = [] } = await work(task);
      parentPort?.postMessage({ id, result } satisfies SentResult<Result>, transfer);
    } catch (error) {
      parentPort?.postMessage({ id, failed: error as Error } satisfies SentResult<Result>);
    }
  });
}
