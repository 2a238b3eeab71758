import type { Job } from './jobs.ts';

/** Why a job is discarded that no attempt has ended: the process of its worker ended in each. */
export class WorkerEnded extends Error {
  constructor({ cutOffs }: Pick<Job, 'cutOffs'>) {
    super(`its worker has ended in ${cutOffs} attempts`);
  }
}

/**
 * Why a job was discarded, for the customer whose work it was. Without the error itself, which is in the log:
 * its text may contain anything.
 */
export function discardReason(
  { attempt, cutOffs }: Pick<Job, 'attempt' | 'cutOffs'>,
  error: unknown,
): string {
  return error instanceof WorkerEnded
    ? `internal error: the server ended during ${cutOffs} attempts; its log has the cause`
    : `internal error: the server failed in ${attempt - cutOffs} attempts; its log has the cause`;
}
