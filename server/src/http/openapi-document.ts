import { readConfig } from '../config.ts';
import { systemClock } from '../lib/clock.ts';
import { createLogger } from '../lib/log.ts';
import type { HttpContext } from './context.ts';
import { createServer } from './server.ts';

/** The API's description as the server publishes it, without a database or a setting. */
export async function openapiDocument(): Promise<object> {
  // While routes are registered nothing of the context is used but the settings and the clock: no request
  // ever comes.
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
