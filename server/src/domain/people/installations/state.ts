import { createHmac, createSecretKey, type KeyObject } from 'node:crypto';
import type { Clock } from '../../../lib/clock.ts';
import { signJwt, verifyJwt } from '../../../lib/jwt.ts';
import type { Project } from '../../setup/projects/cache.ts';

/** What a `state` is valid for. */
export interface StateSubject {
  projectId: string;
  userId: string;
  appId: string;
}

const VALID_MS = 60 * 60_000; // users log in on the way, or wait for an administrator

/** Returns the `state` that Slack sends back with the user, signed with the project's signing key. */
export function signState(
  { clock }: { clock: Clock },
  signingKey: KeyObject,
  subject: StateSubject,
): Promise<string> {
  const exp = Math.floor((clock.now() + VALID_MS) / 1000);
  return signJwt({ ...claimsOf(subject), exp }, stateKey(signingKey));
}

/** Verifies that a `state` was signed for this subject within the last hour. */
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

/** Derives a separate key, so that a state is never accepted as a Project JWT, or the reverse. */
function stateKey(signingKey: KeyObject): KeyObject {
  return createSecretKey(createHmac('sha256', signingKey).update('installation state').digest());
}
