import type { Api } from '../api.ts';
import type { HttpContext } from '../context.ts';
import { createHeaderAuthenticator } from './auth.ts';

/** The guide to which every response of v1 links. */
export const GUIDE_PATH = '/docs/from-v1';

// 2026-11-23T00:00:00Z, in the form of RFC 9745.
const DEPRECATED_SINCE = '@1795392000';

/**
 * The deprecated version of the API, at the root: credentials in headers, and bodies under the name of their
 * entity.
 */
export function v1Api(context: HttpContext, v2: Api): Api {
  const { BRAND, RATE_LIMIT_V1_READS: reads, RATE_LIMIT_V1_WRITES: writes } = context.config;
  return {
    version: 'v1',
    prefix: '',
    authenticate: createHeaderAuthenticator({ ...context, brand: BRAND }, v2.authenticate),
    credentials: {
      project: { security: [{ APIKey: [], APISecret: [] }], name: 'the API secret' },
      user: {
        security: [
          { APIKey: [], UserExternalId: [], UserHMAC: [] },
          { APIKey: [], UserEmail: [], UserHMAC: [] },
          { UserJWT: [] },
        ],
        name: 'a user',
      },
    },
    errorBody: v2.errorBody,
    limits: { ...v2.limits, requests: { reads, writes } },
    headers: {
      deprecation: DEPRECATED_SINCE,
      link: `<${GUIDE_PATH}>; rel="deprecation"; type="text/html"`,
    },
  };
}
