import type { Api } from '../api.ts';
import { createAuthenticator } from '../auth.ts';
import type { HttpContext } from '../context.ts';
import { errorList } from '../error-handler.ts';

// A body with 10,000 keys and values takes 10 ms of the event loop.
const PROJECT_BODIES = { bytes: 1024 * 1024, keysAndValues: 10_000 };
const OTHER_BODIES = { bytes: 64 * 1024, keysAndValues: 500 };

/** The current version of the API: JWTs as bearer tokens, and errors as a list. */
export function v2Api(context: HttpContext): Api {
  const { RATE_LIMIT_READS: reads, RATE_LIMIT_WRITES: writes } = context.config;
  return {
    version: 'v2',
    prefix: '/v2',
    authenticate: createAuthenticator(context),
    credentials: {
      project: { security: [{ ProjectJWT: [] }], name: 'a Project JWT' },
      user: { security: [{ UserJWT: [] }], name: 'a User JWT' },
    },
    errorBody: errorList,
    limits: {
      requests: { reads, writes },
      bodies: { project: PROJECT_BODIES, user: OTHER_BODIES, anyone: OTHER_BODIES },
    },
    headers: {},
  };
}
