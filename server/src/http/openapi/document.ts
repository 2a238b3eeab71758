import { readConfig } from '../../config.ts';
import { systemClock } from '../../lib/clock.ts';
import { createLogger } from '../../lib/log.ts';
import type { HttpContext } from '../context.ts';
import { createServer } from '../server.ts';

/** The descriptions that the server publishes, by version of the API, without a database and settings. */
export async function openapiDocuments(): Promise<Record<'v1' | 'v2', object>> {
  // Registering routes uses only the settings and the clock of the context.
  const context = {
    config: readConfig({}),
    clock: systemClock,
    log: createLogger({ level: 'silent' }),
  } as HttpContext;
  const server = await createServer(context);
  try {
    return { v1: server.swaggerV1(), v2: server.swagger() };
  } finally {
    await server.close();
  }
}
