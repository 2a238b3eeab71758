import { fork } from 'node:child_process';
import { join } from 'node:path';

/** A child process that measures, or is measured against: it has an event loop of its own. */
export interface Task<Request = unknown> {
  /** Sends it a request and resolves to its response. One request at a time. */
  request<Response>(request: Request): Promise<Response>;
  stop(): void;
}

/** Starts a file of `processes/`. */
export function startTask<Request = unknown>(file: string): Task<Request> {
  const child = fork(join(import.meta.dirname, '..', 'processes', file), {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    serialization: 'advanced',
  });
  process.once('exit', () => child.kill());
  return {
    request<Response>(request: Request) {
      return new Promise<Response>((resolve, reject) => {
        const onExit = (code: number | null) => reject(new Error(`${file} ended with ${code}`));
        child.once('exit', onExit);
        child.once('message', (response) => {
          child.off('exit', onExit);
          resolve(response as Response);
        });
        child.send(request as object);
      });
    },
    stop: () => child.kill(),
  };
}

/** Starts a file of `processes/` for one request. */
export async function runTask<Response>(file: string, request: unknown): Promise<Response> {
  const task = startTask(file);
  try {
    return await task.request<Response>(request);
  } finally {
    task.stop();
  }
}

/** In a task: handles each request. */
export function serveTask<Request>(work: (request: Request) => Promise<unknown>): void {
  process.on('message', (request) => {
    void work(request as Request).then((response) => process.send?.(response));
  });
}
