import type { ImportPage } from '../../domain/people/imports/create.ts';
import { ClientError, type ErrorCode } from '../../errors.ts';
import { rememberWritten, type WrittenNumber } from '../../lib/exact-numbers.ts';
import { ThreadEnded, WorkThread } from '../../lib/work-thread.ts';
import type { BodyRules } from './parse-body.ts';

/** What the thread is sent. */
export interface BodyTask {
  body: Uint8Array<ArrayBuffer>;
  rules: BodyRules;
}

/** What it sends back. */
export type BodyResult =
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
  | { refused: { code: ErrorCode; messages: string[] } };

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

/**
 * Parses long bodies in a thread of its own, one after the other, while the event loop goes on. If the thread
 * ends by itself, for want of memory, the bodies that wait for it are a 503.
 */
export class BodyThread {
  readonly #thread = new WorkThread<BodyTask, BodyResult>(
    new URL('./body-thread-main.ts', import.meta.url),
    MAX_HEAP_MB,
  );

  /**
   * The buffer must not be used any more. Rejects as `parseBody` throws, and with `service_unavailable` where
   * memory was not enough.
   */
  async parse(body: Buffer, rules: BodyRules): Promise<ThreadParsedBody> {
    const isWhole = body.buffer instanceof ArrayBuffer && body.buffer.byteLength === body.length;
    const task: BodyTask = { body: isWhole ? (body as Buffer<ArrayBuffer>) : new Uint8Array(body), rules };
    const result = await this.#thread.run(task, [task.body.buffer]).catch((error: unknown) => {
      throw error instanceof ThreadEnded ? outOfMemory() : error;
    });
    if ('refused' in result) throw new ClientError(result.refused.code, result.refused.messages);
    const { value, numbers, texts, problems, hash, pages } = result.parsed;
    rememberWritten(value, numbers);
    return {
      value,
      texts: new Map(texts.map(([name, text]) => [name, Buffer.from(text.buffer)])),
      problems,
      hash: hash && Buffer.from(hash),
      pages: pages?.map(({ size, rows, failures }) => ({
        size,
        rows: Buffer.from(rows),
        failures: failures && Buffer.from(failures),
      })),
    };
  }

  close(): Promise<void> {
    return this.#thread.close();
  }
}

function outOfMemory(): ClientError {
  const message = 'The server did not have enough memory to read the request body. Try again, or send less';
  return new ClientError('service_unavailable', [message], { 'retry-after': '5' });
}
