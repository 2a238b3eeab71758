import { isIP } from 'node:net';
import { ClientError } from '../../../errors.ts';
import { type EgressGuard, EgressRefused } from '../../../lib/egress.ts';
import { Limiter } from '../../../lib/limiter.ts';
import { hostNamedIn, type NamedHost } from '../../../lib/named-host.ts';
import { waitAtMost } from '../../../lib/wait.ts';

// The client that saves a setting waits for all lookups of the request.
const LOOKUP_MS = 1_000;
const MAX_NAME_CHARACTERS = 253;
// Always this computer (RFC 6761, section 6.3), so no name server has to be asked.
const LOCALHOST = /(^|\.)localhost\.?$/i;

const LOOPBACK = ['127.0.0.1', '::1'] as const;

const oneAtATime = new Limiter({ maxCount: 1, maxWeight: 1 });
/** Lookups that requests wait for, and until when. */
const underWay = new Map<string, { why: Promise<string | undefined>; endsAtMs: number }>();

/** Throws `validation_failed` for every member that names a host without a public address. */
export async function rejectPrivateHosts(
  deps: { egress: EgressGuard },
  members: readonly NamedHost[],
  sent: unknown,
): Promise<void> {
  const problems = await privateHostProblems(deps, members, sent);
  if (problems.length > 0) throw new ClientError('validation_failed', problems);
}

/**
 * Returns a problem for each member of a request that names a host without a public address. Accepts a name
 * that is not resolved in time: this only reports mistakes early, and the egress guard checks every
 * connection.
 */
export async function privateHostProblems(
  { egress }: { egress: EgressGuard },
  members: readonly NamedHost[],
  sent: unknown,
): Promise<string[]> {
  const problems: string[] = [];
  const whys = new Map<string, string | undefined>();
  const endsAtMs = performance.now() + LOOKUP_MS;
  for (const member of members) {
    const host = hostNamedIn(sent, member);
    if (host === undefined) continue;
    if (!whys.has(host)) whys.set(host, await whyRefused(egress, host, endsAtMs));
    const why = whys.get(host);
    if (why !== undefined) problems.push(`Param '${member.field}' must lead to a public address: ${why}`);
  }
  return problems;
}

async function whyRefused(egress: EgressGuard, host: string, endsAtMs: number): Promise<string | undefined> {
  if (host.length > MAX_NAME_CHARACTERS) return undefined; // longer than DNS allows
  if (isIP(host) !== 0) return refusal(egress, host);
  if (LOCALHOST.test(host)) {
    const [first, second] = await Promise.all(LOOPBACK.map((address) => refusal(egress, address)));
    return second && first?.replace(LOOPBACK[0], host);
  }
  const leftMs = endsAtMs - performance.now();
  return leftMs <= 0 ? undefined : waitAtMost(leftMs, lookUp(egress, host, endsAtMs), () => undefined);
}

/**
 * Looks up one name at a time, because the operating system resolves few at once, and deliveries need most of
 * them. Resolves with undefined if no request waits any more when its turn comes.
 */
function lookUp(egress: EgressGuard, host: string, endsAtMs: number): Promise<string | undefined> {
  const known = underWay.get(host);
  if (known !== undefined) {
    known.endsAtMs = Math.max(known.endsAtMs, endsAtMs);
    return known.why;
  }
  const isAwaited = () => performance.now() < (underWay.get(host)?.endsAtMs ?? 0);
  const why = oneAtATime
    .run(1, async () => (isAwaited() ? await refusal(egress, host) : undefined))
    .finally(() => underWay.delete(host));
  underWay.set(host, { why, endsAtMs });
  return why;
}

function refusal(egress: EgressGuard, host: string): Promise<string | undefined> {
  return egress.resolve(host).then(
    () => undefined,
    (error: unknown) => (error instanceof EgressRefused ? error.message : undefined),
  );
}
