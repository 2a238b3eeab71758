import type { Progress } from '../../queue/jobs.ts';
import type { OpenedIntegration } from '../integrations/of-project.ts';

/** How it went with one target. */
export type Result = { targetId: string; integration?: OpenedIntegration } & (
  | { kind: 'accepted'; providerId?: string }
  | { kind: 'gone' | 'failed'; reason: string; code?: string }
  /** To be tried again, at the latest after so long. */
  | { kind: 'retry'; delayMs: number; reason: string; code?: string }
  /** It was not tried, and is to be from then on. */
  | { kind: 'held'; untilMs: number; reason: string }
);

/** A delivery before its targets were tried. */
export interface Begun {
  /** Attempts before this one. */
  attempt: number;
  progress: Progress | undefined;
  /** Targets that are not to be tried yet, and when they are. */
  later: Readonly<Record<string, number>>;
  /** Targets that were left and are discarded now. */
  lost: number;
  nowMs: number;
  expiresAtMs: number;
}

/** What became of several targets. */
export interface Figures {
  accepted: number;
  gone: number;
  failed: number;
}

/** What is to be written of a delivery, and what is left to do. */
export interface Conclusion {
  /** Missing where nothing was tried: then there is nothing to tell. */
  outcome?: {
    state: 'sent' | 'failed' | 'retrying';
    attempts: number;
    integration: OpenedIntegration | undefined;
    providerId: string | undefined;
    code: string | undefined;
    reason: string | undefined;
    /** Where there is more than one. */
    targets: Figures | undefined;
  };
  again?: Again;
}

export interface Again extends Figures {
  attempt: number;
  /** By target: after how long, or from when on. */
  left: Readonly<Record<string, { delayMs: number } | { atMs: number }>>;
}

/**
 * What an attempt has made of a delivery. It ends when no target is left to be tried, and well if any has taken the message. What would be tried
 * after its time is over has failed. Pure.
 */
export function conclude(begun: Begun, tried: readonly Result[]): Conclusion {
  const { progress, later, lost } = begun;
  const results = tried.map((result) => inTime(result, begun));
  const figures: Figures = {
    accepted: (progress?.accepted ?? 0) + count(results, 'accepted'),
    gone: (progress?.gone ?? 0) + lost + count(results, 'gone'),
    failed: (progress?.failed ?? 0) + count(results, 'failed'),
  };
  const left: Record<string, { delayMs: number } | { atMs: number }> = {};
  for (const [id, atMs] of Object.entries(later)) left[id] = { atMs };
  for (const result of results) {
    if (result.kind === 'retry') left[result.targetId] = { delayMs: result.delayMs };
    if (result.kind === 'held') left[result.targetId] = { atMs: result.untilMs };
  }
  const attempted = tried.some(({ kind }) => kind !== 'held');
  const attempts = begun.attempt + (attempted ? 1 : 0);
  const over = Object.keys(left).length === 0;
  const retried = results.find(({ kind }) => kind === 'retry');
  return {
    ...(over || retried !== undefined ? { outcome: outcomeOf(results, { figures, left, attempts }) } : {}),
    ...(over ? {} : { again: { ...figures, attempt: attempts, left } }),
  };
}

type Outcome = NonNullable<Conclusion['outcome']>;

function outcomeOf(
  results: readonly Result[],
  { figures, left, attempts }: { figures: Figures; left: Again['left']; attempts: number },
): Outcome {
  const { accepted, gone, failed } = figures;
  const over = Object.keys(left).length === 0;
  const state = over ? (accepted > 0 ? 'sent' : 'failed') : 'retrying';
  const several = accepted + gone + failed + Object.keys(left).length > 1;
  const [first] = LOOKED_FOR[state].flatMap((kind) => results.filter((result) => result.kind === kind));
  const said = first === undefined ? (state === 'failed' ? TOKEN_DISCARDED : undefined) : first;
  return {
    state,
    attempts,
    integration: first?.integration,
    providerId: first?.kind === 'accepted' ? first.providerId : undefined,
    code: said !== undefined && 'code' in said ? said.code : undefined,
    reason: said !== undefined && 'reason' in said ? said.reason : undefined,
    targets: several ? figures : undefined,
  };
}

/** Whose words are told: of the first of these, in this order. */
const LOOKED_FOR = {
  sent: ['accepted'],
  retrying: ['retry'],
  failed: ['failed', 'gone'],
} as const;

const TOKEN_DISCARDED = { code: 'token_discarded', reason: 'the token was discarded' };

function count(results: readonly Result[], kind: Result['kind']): number {
  return results.filter((result) => result.kind === kind).length;
}

function inTime(result: Result, { nowMs, expiresAtMs }: Begun): Result {
  if (result.kind !== 'retry' && result.kind !== 'held') return result;
  const atMs = result.kind === 'retry' ? nowMs + result.delayMs : result.untilMs;
  if (atMs <= expiresAtMs) return result;
  const { targetId, integration } = result;
  return {
    kind: 'failed',
    targetId,
    ...(integration === undefined ? {} : { integration }),
    code: (result.kind === 'retry' ? result.code : undefined) ?? 'expired',
    reason: `gave up when it was no news any more: ${result.reason}`,
  };
}
