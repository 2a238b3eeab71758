// Creates template.br. Run it after an upgrade of PostgreSQL: node server/src/db/embedded/make-template.ts
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { brotliCompressSync, constants } from 'node:zlib';
import { ensureCluster } from './cluster.ts';
import { prepareSite, type Site } from './site.ts';
import { TEMPLATE_FILE, type TemplateIndex } from './template.ts';

// The three databases of a cluster are copies of one compact database, so that their files are equal.
const SHRINK = [
  'drop database postgres',
  "update pg_database set datistemplate = false where datname = 'template0'",
  'drop database template0',
  'vacuum full',
  'vacuum freeze',
  'checkpoint',
];
const COPY = [
  'create database template0 strategy file_copy is_template true allow_connections false',
  'create database postgres strategy file_copy',
];
const FRESH_LOG = ['select pg_switch_wal()', 'checkpoint'];
// Old log segments are deleted, because reused ones would fill the template with their contents.
const LEAN = { wal_recycle: 'off', min_wal_size: '32MB', max_wal_size: '32MB' };
// Settings are written at each start; the rest describes one run of a server.
const EXCLUDED = new Set(['postgresql.conf', 'pg_hba.conf', 'postmaster.opts', 'postmaster.pid']);

const print = (line: string): void => void process.stdout.write(`${line}\n`);

const dataDir = mkdtempSync(path.join(tmpdir(), 'belfry-template-'));
chmodSync(dataDir, 0o711);
try {
  const site = await prepareSite({ dataDir, log: print });
  await ensureCluster(site, print);
  for (const statements of [SHRINK, COPY, FRESH_LOG, FRESH_LOG]) runAlone(site, statements);
  const packed = pack(site);
  writeFileSync(TEMPLATE_FILE, packed);
  print(`${TEMPLATE_FILE.pathname}: ${packed.length} bytes`);
} finally {
  rmSync(dataDir, { recursive: true, force: true });
}

/** Runs statements in single-user mode, in which nothing else writes to the cluster. */
function runAlone({ binaries, cluster, account, home }: Site, statements: string[]): void {
  const settings = Object.entries(LEAN).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const { status, stderr } = spawnSync(
    binaries.postgres,
    ['--single', ...settings, '-D', cluster, 'template1'],
    {
      ...account,
      cwd: home,
      env: binaries.env,
      input: statements.map((statement) => `${statement};\n`).join(''),
      encoding: 'utf8',
    },
  );
  if (status !== 0 || stderr.includes('ERROR:')) throw new Error(stderr);
}

function pack({ cluster, binaries }: Site): Buffer {
  const known = new Map<string, number>();
  const dirs: string[] = [];
  const files: TemplateIndex['files'][number][] = [];
  const parts: Buffer[] = [];
  let length = 0;
  const entries = readdirSync(cluster, { recursive: true, withFileTypes: true });
  const named = entries.map((entry) => ({
    entry,
    name: path.relative(cluster, path.join(entry.parentPath, entry.name)),
  }));
  for (const { entry, name } of named.sort((a, b) => (a.name < b.name ? -1 : 1))) {
    if (EXCLUDED.has(name)) continue;
    if (entry.isDirectory()) {
      dirs.push(name);
      continue;
    }
    const bytes = readFileSync(path.join(cluster, name));
    const hash = createHash('sha256').update(bytes).digest('hex');
    const start = known.get(hash) ?? length;
    files.push({ path: name, start, size: bytes.length });
    if (known.has(hash)) continue;
    known.set(hash, start);
    parts.push(bytes);
    length += bytes.length;
  }
  const index: TemplateIndex = { version: binaries.version, dirs, files };
  const whole = Buffer.concat([Buffer.from(`${JSON.stringify(index)}\n`), ...parts]);
  const params = {
    [constants.BROTLI_PARAM_QUALITY]: 11,
    [constants.BROTLI_PARAM_LGWIN]: 24,
    [constants.BROTLI_PARAM_SIZE_HINT]: whole.length,
  };
  return brotliCompressSync(whole, { params });
}
