/**
 * What stops the storm on an integration that does not work. Closed, all go through. Open, nothing does until `probeAtMs`; then one
 * message at a time is let through to try (half-open). Pure: a state and what happens make the next state. `epoch` tells apart what was
 * let through before the state last turned: how that ends says nothing any more.
 */
export type Breaker = { readonly epoch: number } & (
  | { readonly state: 'closed'; readonly failures: number }
  | { readonly state: 'open'; readonly openings: number; readonly probeAtMs: number }
  /** Who came last while the probe is under way was told to come back at `againMs`. */
  | { readonly state: 'half_open'; readonly openings: number; readonly againMs?: number }
);

/** What a message that was let through says of the integration when it has ended. */
export type Verdict = 'works' | 'refuses' | 'silent' | 'unclear';

/** The right to one send. */
export interface Permit {
  readonly epoch: number;
}

export const CLOSED: Breaker = { epoch: 0, state: 'closed', failures: 0 };

// In a row: a restart of the vendor takes fewer of an integration's messages, an outage takes them within seconds.
const SILENT_IN_A_ROW = 20;
const FIRST_PROBE_MS = 60_000;
const LAST_PROBE_MS = 600_000;
// Who comes while another's message is the probe. An answer takes up to a minute, but most take far less. Those who come within some seconds
// are told the same time: they are one job, which would otherwise come back as many.
const WHILE_PROBING_MS = 10_000;
const SHORTEST_WHILE_MS = 5_000;
const JITTER = 0.2;

/** Asks to send: a permit, or the time to ask again. */
export function admit(
  breaker: Breaker,
  nowMs: number,
  random: () => number = Math.random,
): { breaker: Breaker; permit: Permit } | { breaker: Breaker; untilMs: number } {
  if (breaker.state === 'closed') return { breaker, permit: breaker };
  if (breaker.state === 'half_open') {
    const told = breaker.againMs ?? 0;
    const holds = told >= nowMs + SHORTEST_WHILE_MS && told <= nowMs + longest(WHILE_PROBING_MS);
    const againMs = holds ? told : nowMs + jittered(WHILE_PROBING_MS, random);
    return { breaker: { ...breaker, againMs }, untilMs: againMs };
  }
  const { epoch, openings, probeAtMs } = breaker;
  // Further off than any wait: the clock has been put back.
  const isDue = nowMs >= probeAtMs || probeAtMs > nowMs + longest(LAST_PROBE_MS);
  if (!isDue) return { breaker, untilMs: probeAtMs };
  const probing: Breaker = { epoch: epoch + 1, state: 'half_open', openings };
  return { breaker: probing, permit: probing };
}

/** The state after a message that had this permit has ended. */
export function settle(
  breaker: Breaker,
  permit: Permit,
  verdict: Verdict,
  { nowMs, random = Math.random }: { nowMs: number; random?: () => number },
): Breaker {
  if (permit.epoch !== breaker.epoch) return breaker;
  const epoch = breaker.epoch + 1;
  const open = (openings: number): Breaker => ({
    epoch,
    state: 'open',
    openings,
    probeAtMs: nowMs + jittered(Math.min(FIRST_PROBE_MS * 2 ** (openings - 1), LAST_PROBE_MS), random),
  });
  if (breaker.state === 'closed') {
    if (verdict === 'unclear') return breaker;
    if (verdict === 'works') return breaker.failures === 0 ? breaker : { ...breaker, failures: 0 };
    const failures = breaker.failures + 1;
    return verdict === 'refuses' || failures >= SILENT_IN_A_ROW ? open(1) : { ...breaker, failures };
  }
  if (breaker.state === 'open') return breaker; // has given no permit
  if (verdict === 'works') return { epoch, state: 'closed', failures: 0 };
  // A probe that has shown nothing: the next message may be one at once.
  if (verdict === 'unclear') return { epoch, state: 'open', openings: breaker.openings, probeAtMs: nowMs };
  return open(breaker.openings + 1);
}

/** A fifth more or less, so that what stopped together does not try together. */
function jittered(ms: number, random: () => number): number {
  return Math.round(ms * (1 - JITTER + 2 * JITTER * random()));
}

function longest(ms: number): number {
  return Math.round(ms * (1 + JITTER));
}
