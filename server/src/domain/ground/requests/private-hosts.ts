import { isIP } from 'node:net';
import { ClientError } from '../../../errors.ts';
import { type EgressGuard, EgressRefused } from '../../../lib/egress.ts';
import { hostNamedIn, type NamedHost } from '../../../lib/named-host.ts';
import { waitAtMost } from '../../../lib/wait.ts';

// The client that saves a setting waits for all lookups of the request.
const LOOKUP_MS = 1_000;
// The operating system resolves few names at a time, and deliveries need most of them.
const MAX_LOOKUPS = 1;
const MAX_NAME_CHARACTERS = 253;
let lookups = 0;

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
  const leftMs = endsAtMs - performance.now();
  if (lookups >= MAX_LOOKUPS || leftMs <= 0) return undefined;
  lookups += 1;
  const resolving = refusal(egress, host).finally(() => {
    lookups -= 1;
  });
  return waitAtMost(leftMs, resolving, () => undefined);
}

function refusal(egress: EgressGuard, host: string): Promise<string | undefined> {
  return egress.resolve(host).then(
    () => undefined,
    (error: unknown) => (error instanceof EgressRefused ? error.message : undefined),
  );
}
