/**
 * What stops the storm on an integration that does not work. Closed, all go through. Open, nothing does until
 * `probeAtMs`; then one message at a time is let through to try (half-open). Pure: a state and what happens
 * make the next state. `epoch` tells apart what was let through before the state last turned: how that ends
 * says nothing any more.
 */
export type Breaker = { readonly epoch: number } & (
  | { readonly state: 'closed'; readonly failures: number }
  | { readonly state: 'open'; readonly waitMs: number; readonly probeAtMs: number }
  /** Who came last while the probe is under way was told to come back at `againMs`. */
  | { readonly state: 'half_open'; readonly waitMs: number; readonly againMs?: number }
);

/**
 * What a message that was let through says of the integration when it has ended. `refuses_again`: of a probe
 * only, which met what the same user met before; it may be the user's fault, so the next probe comes after
 * the same wait and not after a longer one.
 */
export type Verdict = 'works' | 'refuses' | 'refuses_again' | 'silent' | 'unclear';

/** The right to one send. */
export interface Permit {
  readonly epoch: number;
}

export const CLOSED: Breaker = { epoch: 0, state: 'closed', failures: 0 };

// In a row: a restart of the vendor takes fewer of an integration's messages, an outage takes them within
// seconds.
const SILENT_IN_A_ROW = 20;
// A vendor who does not answer may be back in a moment; a config waits for somebody to repair it.
const FIRST_PROBE_MS = { silent: 5_000, refuses: 60_000 };
const LAST_PROBE_MS = 600_000;
// Who comes while another's message is the probe. An answer takes up to a minute, but most take far less.
// Those who come within some seconds are told the same time: they are one job, which would otherwise come
// back as many.
const WHILE_PROBING_MS = 10_000;
const JITTER = 0.2;

/** Asks to send: a permit, or the time to ask again. */
export function admit(
  breaker: Breaker,
  nowMs: number,
  random: () => number = Math.random,
): { breaker: Breaker; permit: Permit } | { breaker: Breaker; untilMs: number } {
  if (breaker.state === 'closed') return { breaker, permit: breaker };
  if (breaker.state === 'half_open') {
    const whileMs = Math.min(WHILE_PROBING_MS, breaker.waitMs);
    const told = breaker.againMs ?? 0;
    const holds = told >= nowMs + whileMs / 2 && told <= nowMs + longest(whileMs);
    const againMs = holds ? told : nowMs + jittered(whileMs, random);
    return { breaker: { ...breaker, againMs }, untilMs: againMs };
  }
  const { epoch, waitMs, probeAtMs } = breaker;
  // Further off than any wait: the clock has been put back.
  const isDue = nowMs >= probeAtMs || probeAtMs > nowMs + longest(LAST_PROBE_MS);
  if (!isDue) return { breaker, untilMs: probeAtMs };
  const probing: Breaker = { epoch: epoch + 1, state: 'half_open', waitMs };
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
  const open = (waitMs: number): Breaker => ({
    epoch,
    state: 'open',
    waitMs,
    probeAtMs: nowMs + jittered(waitMs, random),
  });
  if (breaker.state === 'closed') {
    if (verdict === 'unclear' || verdict === 'refuses_again') return breaker;
    if (verdict === 'works') return breaker.failures === 0 ? breaker : { ...breaker, failures: 0 };
    const failures = breaker.failures + 1;
    if (verdict === 'silent' && failures < SILENT_IN_A_ROW) return { ...breaker, failures };
    return open(FIRST_PROBE_MS[verdict]);
  }
  if (breaker.state === 'open') return breaker; // has given no permit
  if (verdict === 'works') return { epoch, state: 'closed', failures: 0 };
  // A probe that has shown nothing: the next message may be one at once.
  if (verdict === 'unclear') return { epoch, state: 'open', waitMs: breaker.waitMs, probeAtMs: nowMs };
  if (verdict === 'refuses_again') return open(breaker.waitMs);
  return open(Math.min(Math.max(2 * breaker.waitMs, FIRST_PROBE_MS[verdict]), LAST_PROBE_MS));
}

/**
 * An open breaker in the place of one that is closed, with the times of another node's, or of this one's
 * before it was restarted.
 */
export function reopened(
  { epoch }: Breaker,
  { waitMs, probeAtMs }: { waitMs: number; probeAtMs: number },
): Breaker {
  const bounded = Math.min(Math.max(waitMs, FIRST_PROBE_MS.silent), LAST_PROBE_MS);
  return { epoch: epoch + 1, state: 'open', waitMs: bounded, probeAtMs };
}

/** A fifth more or less, so that what stopped together does not try together. */
function jittered(ms: number, random: () => number): number {
  return Math.round(ms * (1 - JITTER + 2 * JITTER * random()));
}

function longest(ms: number): number {
  return Math.round(ms * (1 + JITTER));
}
