import { accessSync, constants, existsSync, statfsSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { diskOfLog, FULL_BYTES as FULL_BYTES_OF_LOG } from '../../db/embedded/disk.ts';
import { reasonOf } from '../reason-of.ts';
import { type Finding, ok, problem, warning } from './finding.ts';

const CHECK = 'data directory';
const MIB = 1024 * 1024;
// Under load the log of the embedded database grows to 4 GB (max_wal_size), which must not fill the disk.
const LOW_BYTES = 5 * 1024 * MIB;
// The database stops when it cannot write its log.
const FULL_BYTES = 512 * MIB;

// File systems other than local disks, from statfs(2).
const FILE_SYSTEMS: Record<number, { name: string; advice: string }> = {
  16914836: {
    name: 'memory (tmpfs)',
    advice: 'a restart of the machine deletes all data: choose a directory on a disk',
  },
  2035054128: {
    name: "a container's own layer (overlay)",
    advice: 'the data is deleted with the container: mount a volume there',
  },
  26985: {
    name: 'NFS',
    advice: 'a database over a network file system is slow and may be damaged: choose a local disk',
  },
  4283649346: {
    name: 'SMB',
    advice: 'a database over a network file system may be damaged: choose a local disk',
  },
  4266872130: {
    name: 'SMB',
    advice: 'a database over a network file system may be damaged: choose a local disk',
  },
  16914839: {
    name: 'a shared folder (9p)',
    advice: 'a database in a shared folder may be damaged: choose a local disk',
  },
};

/**
 * Checks that the data directory is writable and private and, if it has the database, that its disk suits
 * one. Changes nothing.
 */
export function checkDataDir(dataDir: string, { hasDatabase }: { hasDatabase: boolean }): Finding[] {
  const present = nearestPresent(dataDir);
  try {
    if (!statSync(present).isDirectory()) throw new Error('it is a file');
    accessSync(present, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (error) {
    const advice = 'choose a directory that this user may write to with DATA_DIR, or change its owner';
    return [problem(CHECK, `${present} cannot be written (${reasonOf(error)})`, advice)];
  }
  const state =
    present === dataDir ? `${dataDir} can be written` : `${dataDir} will be created at the first start`;
  return [
    ok(CHECK, state),
    ...checkFile(dataDir, 'secret.key'),
    ...checkFile(dataDir, 'credentials.json'),
    ...(hasDatabase ? checkDisk(present) : []),
  ];
}

function nearestPresent(dir: string): string {
  return existsSync(dir) || dirname(dir) === dir ? dir : nearestPresent(dirname(dir));
}

/** Checks that other users cannot read a file with secrets. */
function checkFile(dataDir: string, name: string): Finding[] {
  const path = join(dataDir, name);
  const mode = statSync(path, { throwIfNoEntry: false })?.mode;
  if (mode === undefined || process.platform === 'win32') return [];
  if ((mode & 0o077) === 0) return [ok(CHECK, `other users cannot read ${name}`)];
  const octal = (mode & 0o777).toString(8).padStart(4, '0');
  return [problem(CHECK, `${path} has mode ${octal}: other users can read it`, `run: chmod 600 ${path}`)];
}

function checkDisk(dataDir: string): Finding[] {
  // The database may be elsewhere: a link leads to it.
  const dir = nearestPresent(join(dataDir, 'postgres'));
  const { bavail, bsize, type } = statfsSync(dir);
  const free = bavail * bsize;
  const size = sizeOf(free);
  const findings: Finding[] = [];
  if (free < FULL_BYTES)
    findings.push(problem('disk', `only ${size} free`, 'make room: the database stops on a full disk'));
  else if (free < LOW_BYTES)
    findings.push(
      warning('disk', `${size} free`, 'make room: under load the database may take 5 GiB for a while'),
    );
  else findings.push(ok('disk', `${size} free`));
  const log = diskOfLog(dataDir);
  if (log !== undefined) {
    const state = `${sizeOf(log.free)} free for the write-ahead log, in ${log.folder}`;
    findings.push(
      log.free < FULL_BYTES_OF_LOG
        ? problem('disk', `only ${state}`, 'make room: the database stops if its log cannot grow')
        : ok('disk', state),
    );
  }
  const special = process.platform === 'linux' ? FILE_SYSTEMS[type] : undefined;
  if (special !== undefined) findings.push(warning('disk', `${dir} is on ${special.name}`, special.advice));
  return findings;
}

const sizeOf = (bytes: number) =>
  bytes >= 1024 * MIB ? `${(bytes / 1024 / MIB).toFixed(1)} GiB` : `${Math.floor(bytes / MIB)} MiB`;
