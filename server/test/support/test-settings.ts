import { SETTINGS } from '../../src/config.ts';

/** The settings of a service under test: a free port, no rate limits, and vendors that do not listen. */
export function testSettings(databaseUrl: string, dataDir: string): Record<string, string> {
  const origins = Object.keys(SETTINGS).filter((name) => name.startsWith('PROVIDER_'));
  return {
    DATA_DIR: dataDir,
    DATABASE_URL: databaseUrl,
    PORT: '0',
    RATE_LIMIT_READS: '0',
    RATE_LIMIT_WRITES: '0',
    RATE_LIMIT_V1_READS: '0',
    RATE_LIMIT_V1_WRITES: '0',
    RATE_LIMIT_IP: '0',
    ...Object.fromEntries(origins.map((name) => [name, 'http://127.0.0.1:1'])),
  };
}
