import { createHmac, createSecretKey, type KeyObject } from 'node:crypto';
import type { Clock } from '../../../lib/clock.ts';
import { signJwt, verifyJwt } from '../../../lib/jwt.ts';
import type { Project } from '../../setup/projects/cache.ts';

/** Who installs what: what a `state` is good for. */
export interface StateSubject {
  projectId: string;
  userId: string;
  appId: string;
}

const VALID_MS = 60 * 60_000; // users log in on the way, or wait for an administrator

/** The `state` that goes to Slack and comes back with the user, signed with the project's signing key. */
export function signState(
  { clock }: { clock: Clock },
  signingKey: KeyObject,
  subject: StateSubject,
): Promise<string> {
  const exp = Math.floor((clock.now() + VALID_MS) / 1000);
  return signJwt({ ...claimsOf(subject), exp }, stateKey(signingKey));
}

/** Whether a `state` was signed here for this very subject, within the hour. */
export async function isStateOf(
  { clock }: { clock: Clock },
  signingKeys: Project['signingKeys'],
  state: string,
  subject: StateSubject,
): Promise<boolean> {
  const nowMs = clock.now();
  for (const { key, validUntilMs } of signingKeys) {
    if (validUntilMs <= nowMs) continue;
    const verdict = await verifyJwt(state, stateKey(key), nowMs);
    if (verdict.ok)
      return Object.entries(claimsOf(subject)).every(([name, value]) => verdict.claims[name] === value);
  }
  return false;
}

function claimsOf({ projectId, userId, appId }: StateSubject): Record<string, string> {
  return { project: projectId, user: userId, app: appId };
}

/** A key of its own, so that a state can never pass for a Project JWT, nor the reverse. */
function stateKey(signingKey: KeyObject): KeyObject {
  return createSecretKey(createHmac('sha256', signingKey).update('installation state').digest());
}
