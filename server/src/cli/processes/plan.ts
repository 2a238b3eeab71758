import type { Role } from '../../config.ts';
import type { Work } from '../../queue/jobs.ts';

/** The part of one process. */
export interface ProcessPlan {
  roles: readonly Role[];
  /** The part of the jobs that it runs, if it is a worker. */
  work: Work;
  /** If not, other processes accept connections for it. */
  listens: boolean;
}

// Frames cost much less than accepting and delivering what they show.
const REALTIME_SHARE = 1 / 4;

/**
 * Divides the roles of a node over its processes. Bulk has processes of its own, so that it delays neither
 * requests nor small work; from three processes on, so have realtime connections.
 */
export function planProcesses(roles: readonly Role[], count: number): ProcessPlan[] {
  const bulk = roles.includes('worker') && count > 1;
  const others = roles.filter((role) => role !== 'realtime');
  const isMixed = others.length > 0 && others.length < roles.length;
  const realtime = isMixed && (count > 2 || !bulk) ? Math.max(1, Math.floor(count * REALTIME_SHARE)) : 0;
  const ofBulk = bulk ? Math.max(1, Math.floor((count - realtime) / 2)) : 0;
  const main: ProcessPlan = {
    roles: realtime > 0 ? others : roles,
    work: bulk ? 'small' : 'both',
    listens: true,
  };
  return [
    ...Array.from({ length: count - realtime - ofBulk }, () => main),
    ...Array.from(
      { length: ofBulk },
      (): ProcessPlan => ({ roles: ['worker'], work: 'bulk', listens: false }),
    ),
    ...Array.from(
      { length: realtime },
      (): ProcessPlan => ({ roles: ['realtime'], work: 'both', listens: false }),
    ),
  ];
}

/** What a process does, for the log: `api,worker for small work`. */
export function partOf({ roles, work }: ProcessPlan): string {
  return work === 'both' ? roles.join() : `${roles.join()} for ${work === 'bulk' ? 'bulk' : 'small work'}`;
}
