import { getHeapStatistics } from 'node:v8';
import { Worker } from 'node:worker_threads';
import type { ImportPage } from '../../domain/people/imports/create.ts';
import { ClientError, type ErrorCode } from '../../errors.ts';
import { rememberWritten, type WrittenNumber } from '../../lib/exact-numbers.ts';
import type { BodyRules } from './parse-body.ts';

/** What the thread is sent. */
export interface BodyTask {
  id: number;
  body: Uint8Array<ArrayBuffer>;
  rules: BodyRules;
}

/** What it sends back. */
export type BodyResult = { id: number } & (
  | {
      parsed: {
        value: unknown;
        /** The numbers in `value` that a clone would not remember. */
        numbers: WrittenNumber[];
        texts: [string, Uint8Array<ArrayBuffer>][];
        problems: string[];
        hash: Uint8Array | undefined;
        pages?: { size: number; rows: Uint8Array; failures: Uint8Array | null }[];
      };
    }
  | { refused: { code: ErrorCode; messages: string[] } }
  | { failed: Error }
);

/** A body that the thread has parsed. */
export interface ThreadParsedBody {
  value: unknown;
  /**
   * The JSON texts of its members. That of the long array, and of a member with numbers that parsing changes,
   * is as it was sent.
   */
  texts: ReadonlyMap<string, Buffer>;
  /** As `textProblems` returns them. */
  problems: string[];
  hash: Buffer | undefined;
  /** The users of a body that is a list of users. */
  pages: ImportPage[] | undefined;
}

// A content of 10,485,760 characters, each written as \\uXXXX\\uXXXX, needs about 500 MB while it is parsed.
const MAX_HEAP_MB = 1024;
// An idle thread holds some 20 MB, and what its heap has grown to.
const IDLE_MS = 10_000;

/**
 * Parses long bodies in a thread of its own, one after the other, while the event loop goes on. The thread is
 * started for the first body, and stopped when there are none for a while. If it ends by itself, for want of
 * memory, the bodies that wait for it are a 503.
 */
export class BodyThread {
  #worker: Worker | undefined;
  #idle: NodeJS.Timeout | undefined;
  #nextId = 0;
  readonly #waiting = new Map<number, PromiseWithResolvers<ThreadParsedBody> & { worker: Worker }>();

  /**
   * The buffer must not be used any more. Rejects as `parseBody` throws, and with `service_unavailable` where
   * memory was not enough.
   */
  parse(body: Buffer, rules: BodyRules): Promise<ThreadParsedBody> {
    const worker = this.#start();
    clearTimeout(this.#idle);
    const waiting = Promise.withResolvers<ThreadParsedBody>();
    const id = this.#nextId++;
    this.#waiting.set(id, { ...waiting, worker });
    const isWhole = body.buffer instanceof ArrayBuffer && body.buffer.byteLength === body.length;
    const task: BodyTask = {
      id,
      body: isWhole ? (body as Buffer<ArrayBuffer>) : new Uint8Array(body),
      rules,
    };
    worker.postMessage(task, [task.body.buffer]);
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
    const worker = new Worker(new URL('./body-thread-main.ts', import.meta.url), {
      execArgv: [],
      resourceLimits: { maxOldGenerationSizeMb: Math.min(heapMb, MAX_HEAP_MB) },
    });
    worker.unref(); // the requests that wait for it keep the process alive
    worker.on('message', (result: BodyResult) => this.#onResult(result));
    worker.on('error', () => {}); // followed by `exit`
    worker.on('exit', () => this.#onExit(worker));
    this.#worker = worker;
    return worker;
  }

  #onResult(result: BodyResult): void {
    const waiting = this.#waiting.get(result.id);
    this.#waiting.delete(result.id);
    if (this.#waiting.size === 0) {
      this.#idle = setTimeout(() => void this.close(), IDLE_MS).unref();
    }
    if ('refused' in result) waiting?.reject(new ClientError(result.refused.code, result.refused.messages));
    else if ('failed' in result) waiting?.reject(result.failed);
    else {
      const { value, numbers, texts, problems, hash, pages } = result.parsed;
      rememberWritten(value, numbers);
      waiting?.resolve({
        value,
        texts: new Map(texts.map(([name, text]) => [name, Buffer.from(text.buffer)])),
        problems,
        hash: hash && Buffer.from(hash),
        pages: pages?.map(({ size, rows, failures }) => ({
          size,
          rows: Buffer.from(rows),
          failures: failures && Buffer.from(failures),
        })),
      });
    }
  }

  #onExit(worker: Worker): void {
    if (this.#worker === worker) this.#worker = undefined;
    for (const [id, waiting] of this.#waiting) {
      if (waiting.worker !== worker) continue;
      this.#waiting.delete(id);
      const message =
        'The server did not have enough memory to read the request body. Try again, or send less';
      waiting.reject(new ClientError('service_unavailable', [message], { 'retry-after': '5' }));
    }
  }
}
