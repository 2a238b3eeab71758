import { fork } from 'node:child_process';
import { join } from 'node:path';

/** A process of ours that measures or is measured against, so that it shares no event loop with the rest. */
export interface Task {
  /** Gives it something to do and answers what it answers. */
  ask<Answer>(question: unknown): Promise<Answer>;
  stop(): void;
}

/** Starts a file of `processes/`. */
export function startTask(file: string): Task {
  const child = fork(join(import.meta.dirname, '..', 'processes', file), {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    serialization: 'advanced',
  });
  process.once('exit', () => child.kill());
  return {
    ask<Answer>(question: unknown) {
      return new Promise<Answer>((resolve, reject) => {
        const onExit = (code: number | null) => reject(new Error(`${file} ended with ${code}`));
        child.once('exit', onExit);
        child.once('message', (answer) => {
          child.off('exit', onExit);
          resolve(answer as Answer);
        });
        child.send(question as object);
      });
    },
    stop: () => child.kill(),
  };
}

/** One question to a process of its own. */
export async function task<Answer>(file: string, question: unknown): Promise<Answer> {
  const started = startTask(file);
  try {
    return await started.ask<Answer>(question);
  } finally {
    started.stop();
  }
}

/** In such a process: answers each question. */
export function answer<Question>(work: (question: Question) => Promise<unknown>): void {
  process.on('message', (question) => {
    void work(question as Question).then((result) => process.send?.(result));
  });
}
