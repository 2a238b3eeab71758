import { readConfig } from '../config.ts';
import { systemClock } from '../lib/clock.ts';
import { createLogger } from '../lib/log.ts';
import type { HttpContext } from './context.ts';
import { createServer } from './server.ts';

/** The API description that the server publishes, without a database and settings. */
export async function openapiDocument(): Promise<object> {
  // Registering routes uses only the settings and the clock of the context.
  const context = {
    config: readConfig({}),
    clock: systemClock,
    log: createLogger({ level: 'silent' }),
  } as HttpContext;
  const server = await createServer(context);
  try {
    return server.swagger();
  } finally {
    await server.close();
  }
}
