import { type Config, InvalidSettings, readConfig } from '../config.ts';
import { checkCells } from './doctor/cells.ts';
import { checkDataDir } from './doctor/data-dir.ts';
import { checkDatabase } from './doctor/database.ts';
import { type Finding, ok, problem } from './doctor/finding.ts';
import { checkNats } from './doctor/nats.ts';
import { checkProjects } from './doctor/projects.ts';
import { checkKeyAlone } from './doctor/sealing.ts';
import { checkPublicUrl, checkServer } from './doctor/server.ts';
import { colored, print, printJson } from './output.ts';

const NEEDED_NODE = 24; // the oldest that runs TypeScript

/** `belfry doctor`: checks everything that Belfry needs, without changes. Exit code 1 if something fails. */
export async function doctor({ json }: { json?: boolean }): Promise<void> {
  const findings = await examine();
  const sound = findings.every(({ status }) => status !== 'problem');
  if (json) printJson({ ok: sound, checks: findings });
  else report(findings);
  if (!sound) process.exitCode = 1;
}

async function examine(): Promise<Finding[]> {
  const { config, findings } = readSettings();
  if (config === undefined) return [checkNode(), ...findings];
  const database = await checkDatabase(config);
  try {
    const server = await checkServer(config, database.serverPid);
    const { db, place, usable } = database;
    const projects =
      database.db !== undefined && database.usable
        ? await checkProjects(config, database.db)
        : { findings: [], sendsEmail: false };
    return [
      checkNode(),
      ...findings,
      ...checkDataDir(config.DATA_DIR, { hasDatabase: config.DATABASE_URL === undefined }),
      ...database.findings,
      ...(await checkNats(config, database.usable ? database.db : undefined)),
      ...server.findings,
      ...projects.findings,
      ...(database.stopped ? [checkKeyAlone(config)] : []),
      ...(db !== undefined && place !== undefined && usable ? await checkCells(config, place, db) : []),
      ...(await checkPublicUrl(config, { ...server, ...projects })),
    ];
  } finally {
    await database.db?.close();
  }
}

function checkNode(): Finding {
  const { node } = process.versions;
  return Number.parseInt(node, 10) >= NEEDED_NODE
    ? ok('node', node)
    : problem(
        'node',
        `${node} is too old`,
        `install Node ${NEEDED_NODE} or newer, or start with npm, which installs it`,
      );
}

/** The settings, or all their problems: then nothing else can be checked. */
function readSettings(): { config?: Config; findings: Finding[] } {
  try {
    return { config: readConfig(), findings: [ok('settings', 'all are known and valid')] };
  } catch (error) {
    if (!(error instanceof InvalidSettings)) throw error;
    const advice = 'correct it; docs/reference/settings.md lists them. The rest was not checked';
    return { findings: error.problems.map((message) => problem('settings', message, advice)) };
  }
}

const FORMATS = { ok: 'green', warning: 'yellow', problem: 'red' } as const;
const MARKS = { ok: '✓', warning: '!', problem: '✗' };

function report(findings: Finding[]): void {
  const width = Math.max(...findings.map(({ check }) => check.length));
  for (const { check, status, message, advice } of findings) {
    print(`${colored(FORMATS[status], MARKS[status])} ${check.padEnd(width)}  ${message}`);
    if (advice !== undefined) print(`  ${' '.repeat(width)}  → ${advice}`);
  }
  const count = (status: Finding['status'], word: string) => {
    const number = findings.filter((finding) => finding.status === status).length;
    return `${number} ${word}${number === 1 ? '' : 's'}`;
  };
  print(`\n${count('problem', 'problem')}, ${count('warning', 'warning')}`);
}
