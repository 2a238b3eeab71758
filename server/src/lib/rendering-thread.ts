import { Limiter } from './limiter.ts';
import { TemplateError } from './template.ts';
import { ThreadEnded, WorkThread } from './work-thread.ts';

const MAX_HEAP_MB = 512;

/**
 * A thread for renderings that would block the event loop. It renders one at a time, so that one for which
 * the memory is not enough fails alone. Kinds of work take turns, so that none waits for all of another's.
 */
export class RenderingThread<Kind extends string, Task, Result> {
  readonly #thread: WorkThread<Task, Result>;
  readonly #one = oneAtATime();
  readonly #ofKind = new Map<Kind, Limiter>();

  /** `main` is the module of the thread: it calls `serveTasks`. */
  constructor(main: URL) {
    this.#thread = new WorkThread(main, MAX_HEAP_MB);
  }

  /** The number of tasks of this kind that wait for another one. */
  waiting(kind: Kind): number {
    return this.#ofKind.get(kind)?.waiting ?? 0;
  }

  /**
   * Resolves with the result of the task. Throws TemplateError if the memory was not enough. The buffers in
   * `transfer` must not be used any more.
   */
  run(kind: Kind, task: Task, transfer: readonly ArrayBuffer[] = []): Promise<Result> {
    const ofKind = this.#ofKind.get(kind) ?? oneAtATime();
    this.#ofKind.set(kind, ofKind);
    return ofKind.run(1, () =>
      this.#one.run(1, async () => {
        try {
          return await this.#thread.run(task, transfer);
        } catch (error) {
          throw error instanceof ThreadEnded ? new TemplateError('takes too much memory to render') : error;
        }
      }),
    );
  }
}

function oneAtATime(): Limiter {
  return new Limiter({ maxCount: 1, maxWeight: 1 });
}
