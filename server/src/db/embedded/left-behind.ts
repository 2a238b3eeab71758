import { readdirSync, readFileSync, readlinkSync, realpathSync } from 'node:fs';

/**
 * Kills the processes that a killed server has left behind, and returns their number. They end by themselves
 * unless they wait for a lock of a killed process. Those wait forever, and no server starts on the cluster
 * while they hold its shared memory. Call it after a start has failed for that memory, because then their
 * server is gone. Linux only; 0 elsewhere.
 */
export function endLeftBehind(cluster: string): number {
  const members = new Set(processesIn(realpathSync(cluster)));
  // The parent of a running server's child is that server; these have another parent.
  const left = [...members].filter((pid) => !members.has(parentOf(pid) ?? 0));
  let ended = 0;
  for (const pid of left) {
    try {
      process.kill(pid, 'SIGKILL');
      ended += 1;
    } catch {
      // It has ended, or belongs to another user: then the next start reports the problem.
    }
  }
  return ended;
}

/** The processes with this working directory, as all processes of a PostgreSQL server have their cluster. */
function processesIn(directory: string): number[] {
  try {
    return readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name) && directoryOf(name) === directory)
      .map(Number);
  } catch {
    return []; // not Linux
  }
}

function directoryOf(pid: string): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/cwd`);
  } catch {
    return undefined; // ended, or of another user
  }
}

function parentOf(pid: number): number | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // "pid (name) state parent …": the name may contain spaces and brackets, so count from its end.
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
  } catch {
    return undefined;
  }
}
