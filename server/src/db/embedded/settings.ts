/**
 * The server's settings, written at every start so that each release has its own. To change one permanently,
 * use `alter system set …`: PostgreSQL stores it in another file, which is read after this one.
 */
const SETTINGS: Readonly<Record<string, string>> = {
  // No commit is lost in a crash or power failure.
  fsync: 'on',
  full_page_writes: 'on',
  synchronous_commit: 'on',
  // For a small machine: untouched buffers cost no memory; the rest is for bursts of inserts.
  shared_buffers: '256MB',
  // All of it is touched at the start. 16 MB would save writes in a burst, but no flushes and no time.
  wal_buffers: '4MB',
  huge_pages: 'try',
  // Most reads are served from memory. The defaults are for many disks, and take 5 MB idle.
  io_workers: '1',
  io_max_concurrency: '16',
  max_wal_size: '4GB',
  checkpoint_timeout: '15min',
  checkpoint_completion_target: '0.9',
  jit: 'off', // the package has no LLVM, and the statements are short
  max_logical_replication_workers: '0', // one idle process less
  // The queue is small and changes constantly, and notifications grow constantly: vacuum often, in small
  // steps.
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
  // To standard error, which Belfry reads. Without failed statements, because they may contain personal data.
  log_destination: 'stderr',
  logging_collector: 'off',
  log_min_messages: 'log',
  log_min_error_statement: 'panic',
  log_error_verbosity: 'terse',
  log_checkpoints: 'off',
  log_line_prefix: '',
  // The folder of the socket is private, and so is the socket.
  unix_socket_permissions: '0700',
};

/** The text of postgresql.conf. */
export function settingsFile({ maxConnections }: { maxConnections: number }): string {
  const settings = { ...SETTINGS, max_connections: String(maxConnections) };
  const lines = Object.entries(settings).map(([name, value]) => `${name} = '${value}'`);
  const header = '# Written by Belfry at every start: changes here are lost. Use: alter system set …';
  return `${header}\n${lines.join('\n')}\n`;
}

/** The text of pg_hba.conf: the socket is protected by its folder, and TCP by a random password. */
export function accessFile(): string {
  return `# Written by Belfry at every start.
local all all trust
host all all 127.0.0.1/32 scram-sha-256
`;
}
