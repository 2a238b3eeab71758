import { readdirSync, readFileSync, readlinkSync, realpathSync } from 'node:fs';

/**
 * Ends the processes that a killed server has left behind, and answers how many. They end by themselves,
 * unless they wait for something that another one held when it was killed: those wait for ever, and as long
 * as they have its memory no server starts on the cluster. Call it when a start was refused for that memory:
 * then the server that would have ended them is gone. Linux only; 0 elsewhere.
 */
export function endLeftBehind(cluster: string): number {
  const members = new Set(processesIn(realpathSync(cluster)));
  // A child of a server that lives has that server as its parent; these have got another one.
  const left = [...members].filter((pid) => !members.has(parentOf(pid) ?? 0));
  let ended = 0;
  for (const pid of left) {
    try {
      process.kill(pid, 'SIGKILL');
      ended += 1;
    } catch {
      // It has ended by itself, or is not ours: then the next attempt to start says what is wrong.
    }
  }
  return ended;
}

/** The processes that work in this directory, as every process of a PostgreSQL server does in its cluster. */
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
    return undefined; // ended, or another user's
  }
}

function parentOf(pid: number): number | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // "pid (name) state parent …": the name may hold spaces and brackets, so count from its end.
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
  } catch {
    return undefined;
  }
}
