import { startService } from '../../server/src/app.ts';
import { readConfig } from '../../server/src/config.ts';
import { createLogger } from '../../server/src/lib/log.ts';

// A server that asks for new jobs once a minute only, so that it lives on what other nodes announce.

const config = readConfig();
const service = await startService(config, {
  log: createLogger({ level: config.LOG_LEVEL }),
  pollMs: 60_000,
});
process.once('SIGTERM', () => void service.stop().then(() => process.exit()));
console.log(`ready at ${service.address}`);
