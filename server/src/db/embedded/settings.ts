/**
 * The server's settings, written anew at every start so that a newer Belfry brings its own. To change one for
 * good, use `alter system set …`: PostgreSQL keeps that in a file of its own, which is read after this one.
 */
const SETTINGS: Readonly<Record<string, string>> = {
  // Nothing acknowledged is lost, whatever is killed or unplugged.
  fsync: 'on',
  full_page_writes: 'on',
  synchronous_commit: 'on',
  // For a small machine: untouched buffers cost no memory; the rest is for bursts of inserts.
  shared_buffers: '256MB',
  wal_buffers: '4MB', // all of it is touched at the start; with 16 MB a burst takes fewer writes, but no less time and no fewer flushes
  huge_pages: 'try',
  // Reading ahead for one scan at a time: what is asked for all day is in memory. The defaults are for many
  // disks, and hold 5 MB idle.
  io_workers: '1',
  io_max_concurrency: '16',
  max_connections: '60',
  max_wal_size: '4GB',
  checkpoint_timeout: '15min',
  checkpoint_completion_target: '0.9',
  jit: 'off', // the package has no LLVM, and the statements are short
  max_logical_replication_workers: '0', // one idle process less
  // The queue is small and changes all the time, the notifications grow all the time: look often, work in
  // small portions.
  autovacuum_naptime: '15s',
  autovacuum_vacuum_scale_factor: '0.05',
  autovacuum_analyze_scale_factor: '0.05',
  autovacuum_vacuum_insert_scale_factor: '0.1',
  autovacuum_vacuum_cost_limit: '1000',
  autovacuum_max_workers: '2',
  // The same on every machine.
  timezone: 'UTC',
  log_timezone: 'UTC',
  datestyle: 'ISO, YMD',
  lc_messages: 'C',
  default_text_search_config: 'pg_catalog.simple',
  // To standard error, which Belfry reads. Failed statements are answered to Belfry anyway and may hold
  // personal data.
  log_destination: 'stderr',
  logging_collector: 'off',
  log_min_messages: 'log',
  log_min_error_statement: 'panic',
  log_error_verbosity: 'terse',
  log_checkpoints: 'off',
  log_line_prefix: '',
  // The folder of the socket is closed already; the socket itself too.
  unix_socket_permissions: '0700',
};

/** The text of postgresql.conf. */
export function settingsFile(): string {
  const lines = Object.entries(SETTINGS).map(([name, value]) => `${name} = '${value}'`);
  return `# Written by Belfry at every start: changes here are lost. Use: alter system set …\n${lines.join('\n')}\n`;
}

/** The text of pg_hba.conf: the socket's folder is the guard of the socket, a random password that of TCP. */
export function accessFile(): string {
  return `# Written by Belfry at every start.
local all all trust
host all all 127.0.0.1/32 scram-sha-256
`;
}
