import type { Database } from '../../../db/client.ts';
import type { Clock } from '../../../lib/clock.ts';
import { type Claims, signJwt } from '../../../lib/jwt.ts';
import type { Sealer } from '../../../lib/seal.ts';
import { createVapidKeys } from '../../../providers/web-push/vapid.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import { findIntegrations } from '../../setup/integrations/find.ts';
import { getOrCreateIntegration } from '../../setup/integrations/save.ts';
import type { ProjectKey } from '../../setup/projects/keys.ts';

const AUTH_TOKEN_MS = 60 * 60_000; // time for the user to reply to the browser's prompt

/**
 * Returns what a browser needs to subscribe: the project's public VAPID key, which is created if there is
 * none, and a User JWT with which the subscription is saved. Because the JWT may be passed in a URL, it
 * expires within an hour, and never later than the caller's token.
 */
export async function startWebPush(
  deps: {
    db: Pick<Database, 'query' | 'transaction'>;
    bus: Bus;
    sealer: Sealer;
    clock: Clock;
    config: { readonly BRAND: string };
  },
  projectId: string,
  token: CallerToken,
): Promise<{ auth_token: string; public_key: string }> {
  // The common case needs no lock.
  const [found] = await findIntegrations(deps, projectId, 'web_push');
  const { config } =
    found ?? (await getOrCreateIntegration(deps, { projectId, provider: 'web_push', make: createVapidKeys }));
  return { auth_token: await authToken(deps, token), public_key: config.public_key };
}

/** The caller's token and its key. The new token is signed with the same key, so that it ends with it. */
interface CallerToken {
  claims: Claims;
  expiresAtMs: number;
  key: ProjectKey;
}

function authToken(
  { clock }: { clock: Clock },
  { claims: { api_key, user_external_id, user_email }, expiresAtMs, key }: CallerToken,
): Promise<string> {
  const nowMs = clock.now();
  const iat = Math.floor(nowMs / 1000);
  const exp = Math.floor(Math.min(nowMs + AUTH_TOKEN_MS, expiresAtMs) / 1000);
  // Members that are undefined are left out of the JSON.
  const named = { api_key, user_external_id, user_email };
  return signJwt({ ...named, iat, exp }, key.key);
}
