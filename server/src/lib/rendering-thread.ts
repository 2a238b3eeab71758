import { Limiter } from './limiter.ts';
import { TemplateError } from './template.ts';
import { ThreadEnded, WorkThread } from './work-thread.ts';

const MAX_HEAP_MB = 512;

/**
 * A thread for renderings that would block the event loop. It renders one at a time, so that one for which
 * the memory is not enough fails alone. The sources take turns, so that none waits for all of another's.
 */
export class RenderingThread<Source extends string, Task, Result> {
  readonly #thread: WorkThread<Task, Result>;
  readonly #one = oneAtATime();
  readonly #ofSource = new Map<Source, Limiter>();

  /** `main` is the module of the thread: it calls `serveTasks`. */
  constructor(main: URL) {
    this.#thread = new WorkThread(main, MAX_HEAP_MB);
  }

  /**
   * Resolves with the result of the task. Throws TemplateError if the memory was not enough. The buffers in
   * `transfer` must not be used any more.
   */
  run(source: Source, task: Task, transfer: readonly ArrayBuffer[] = []): Promise<Result> {
    const ofSource = this.#ofSource.get(source) ?? oneAtATime();
    this.#ofSource.set(source, ofSource);
    return ofSource.run(1, () =>
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
