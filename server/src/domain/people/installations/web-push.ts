import type { Database } from '../../../db/client.ts';
import type { Clock } from '../../../lib/clock.ts';
import { type Claims, signJwt } from '../../../lib/jwt.ts';
import type { Sealer } from '../../../lib/seal.ts';
import { createVapidKeys } from '../../../providers/web-push/vapid.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import { findIntegrations } from '../../setup/integrations/find.ts';
import { getOrCreateIntegration } from '../../setup/integrations/save.ts';
import type { ProjectKey } from '../../setup/projects/keys.ts';

const AUTH_TOKEN_MS = 60 * 60_000; // long enough for a person to decide about the browser's question

/**
 * What a browser needs to subscribe: the project's public VAPID key, of a pair that is made when there is
 * none, and a User JWT of the caller for whatever saves the subscription. It may be handed on in an address,
 * so it ends within the hour, and never after the token that it was asked for with.
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
  token: AskingToken,
): Promise<{ auth_token: string; public_key: string }> {
  // Nearly always there is one, and no lock is needed.
  const [found] = await findIntegrations(deps, projectId, 'web_push');
  const { config } =
    found ?? (await getOrCreateIntegration(deps, { projectId, provider: 'web_push', make: createVapidKeys }));
  return { auth_token: await authToken(deps, token), public_key: config.public_key };
}

/**
 * The token that the caller has, and the key that signed it: the new one is signed with the same, so that it
 * ends with it.
 */
interface AskingToken {
  claims: Claims;
  expiresAtMs: number;
  key: ProjectKey;
}

function authToken(
  { clock }: { clock: Clock },
  { claims: { api_key, user_external_id, user_email }, expiresAtMs, key }: AskingToken,
): Promise<string> {
  const nowMs = clock.now();
  const iat = Math.floor(nowMs / 1000);
  const exp = Math.floor(Math.min(nowMs + AUTH_TOKEN_MS, expiresAtMs) / 1000);
  // Members that are undefined are left out of the JSON.
  const named = { api_key, user_external_id, user_email };
  return signJwt({ ...named, iat, exp }, key.key);
}
