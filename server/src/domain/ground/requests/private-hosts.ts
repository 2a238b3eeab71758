import { isIP } from 'node:net';
import { ClientError } from '../../../errors.ts';
import { type EgressGuard, EgressRefused } from '../../../lib/egress.ts';
import { hostNamedIn, type NamedHost } from '../../../lib/named-host.ts';

// Whoever saves something waits for it.
const LOOKUP_MS = 1_000;
// The operating system looks up few names at a time, and deliveries need that too.
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
 * Which members of a request, of whatever shape, name a host without a public address. A name that the name
 * server does not resolve in time is accepted: this is to report a mistake early, and the guard judges every
 * connection anyway.
 */
export async function privateHostProblems(
  { egress }: { egress: EgressGuard },
  members: readonly NamedHost[],
  sent: unknown,
): Promise<string[]> {
  const problems: string[] = [];
  for (const member of members) {
    const host = hostNamedIn(sent, member);
    const why = host === undefined ? undefined : await whyRefused(egress, host);
    if (why !== undefined) problems.push(`Param '${member.field}' must lead to a public address: ${why}`);
  }
  return problems;
}

async function whyRefused(egress: EgressGuard, host: string): Promise<string | undefined> {
  if (host.length > MAX_NAME_CHARACTERS) return undefined; // no name server knows such a name
  if (isIP(host) !== 0) return refusal(egress, host);
  if (lookups >= MAX_LOOKUPS) return undefined;
  lookups += 1;
  const resolving = refusal(egress, host).finally(() => {
    lookups -= 1;
  });
  const { promise: tooLate, resolve } = Promise.withResolvers<undefined>();
  const timer = setTimeout(() => resolve(undefined), LOOKUP_MS);
  try {
    return await Promise.race([resolving, tooLate]);
  } finally {
    clearTimeout(timer);
  }
}

function refusal(egress: EgressGuard, host: string): Promise<string | undefined> {
  return egress.resolve(host).then(
    () => undefined,
    (error: unknown) => (error instanceof EgressRefused ? error.message : undefined),
  );
}
