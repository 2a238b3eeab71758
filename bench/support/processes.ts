import { readdirSync, readFileSync } from 'node:fs';

/** CPU time of a server and its database. */
export interface Usage {
  nodeCpuMs: number;
  postgresCpuMs: number;
}

// The unit of /proc/<pid>/stat on common Linux systems.
const MS_PER_TICK = 10;

/** The CPU time of a server's process and of the PostgreSQL below it. */
export function cpuOf(pid: number): Usage {
  const usage: Usage = { nodeCpuMs: 0, postgresCpuMs: 0 };
  for (const { name, ticks } of treeOf(pid)) {
    usage[name.startsWith('postgres') ? 'postgresCpuMs' : 'nodeCpuMs'] += ticks * MS_PER_TICK;
  }
  return usage;
}

/** The CPU time between two readings. */
export function used(before: Usage, after: Usage): Usage {
  return {
    nodeCpuMs: after.nodeCpuMs - before.nodeCpuMs,
    postgresCpuMs: after.postgresCpuMs - before.postgresCpuMs,
  };
}

/**
 * The memory of a server's process and of the PostgreSQL below it, in bytes, as proportional set size: a page
 * that several processes share counts once in all.
 */
export function memoryOf(pid: number): { nodeBytes: number; postgresBytes: number } {
  const { node, postgres } = sumOf(pid, (member) => {
    const text = readFileSync(`/proc/${member}/smaps_rollup`, 'utf8');
    return Number(/^Pss:\s+(\d+) kB/m.exec(text)?.[1] ?? 0) * 1024;
  });
  return { nodeBytes: node, postgresBytes: postgres };
}

/** The open descriptors of a server's process and of the PostgreSQL below it. */
export function descriptorsOf(pid: number): { node: number; postgres: number } {
  return sumOf(pid, (member) => readdirSync(`/proc/${member}/fd`).length);
}

function sumOf(pid: number, measure: (pid: number) => number): { node: number; postgres: number } {
  const sum = { node: 0, postgres: 0 };
  for (const member of treeOf(pid)) {
    try {
      sum[member.name.startsWith('postgres') ? 'postgres' : 'node'] += measure(member.pid);
    } catch {
      // It ended meanwhile.
    }
  }
  return sum;
}

interface Member {
  pid: number;
  parent: number;
  name: string;
  /** Its CPU time, with that of ended children. */
  ticks: number;
}

function treeOf(root: number): Member[] {
  const all = readdirSync('/proc').flatMap((entry) =>
    /^\d+$/.test(entry) ? (read(Number(entry)) ?? []) : [],
  );
  const tree = all.filter((one) => one.pid === root);
  for (const member of tree) tree.push(...all.filter((one) => one.parent === member.pid));
  return tree;
}

function read(pid: number): Member | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const name = text.slice(text.indexOf('(') + 1, text.lastIndexOf(')'));
    const fields = text
      .slice(text.lastIndexOf(')') + 2)
      .split(' ')
      .map(Number);
    const [, parent = 0] = fields;
    const ticks = fields.slice(11, 15).reduce((sum, value) => sum + value, 0);
    return { pid, parent, name, ticks };
  } catch {
    return undefined; // it ended meanwhile
  }
}
