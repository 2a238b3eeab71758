import type { Progress } from '../../../queue/jobs.ts';
import type { OpenedIntegration } from '../../setup/integrations/of-project.ts';

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
export interface Targets {
  accepted: number;
  gone: number;
  failed: number;
  /** What providers call the messages that were accepted, in that order. */
  provider_ids: readonly string[];
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
    targets: Targets | undefined;
    /** What is left to do, where something is. */
    progress: Progress | undefined;
  };
  again?: Again;
}

export interface Again extends Omit<Progress, 'left'> {
  attempt: number;
  /** By target: after how long, or from when on. */
  left: Readonly<Record<string, { delayMs: number } | { atMs: number }>>;
}

/**
 * What an attempt has made of a delivery. It is `sent` as soon as one target has accepted the message, while
 * the others are retried; and it has failed when no target is left and none accepted it. What would be
 * retried after its time to live has failed. Pure.
 */
export function conclude(begun: Begun, tried: readonly Result[]): Conclusion {
  const { progress, later, lost } = begun;
  const results = tried.map((result) => inTime(result, begun));
  const figures = {
    accepted: (progress?.accepted ?? 0) + count(results, 'accepted'),
    gone: (progress?.gone ?? 0) + lost + count(results, 'gone'),
    failed: (progress?.failed ?? 0) + count(results, 'failed'),
  };
  const providerIds = [...(progress?.provider_ids ?? []), ...results.flatMap(providerIdOf)];
  const left: Record<string, { delayMs: number } | { atMs: number }> = {};
  for (const [id, atMs] of Object.entries(later)) left[id] = { atMs };
  for (const result of results) {
    if (result.kind === 'retry') left[result.targetId] = { delayMs: result.delayMs };
    if (result.kind === 'held') left[result.targetId] = { atMs: result.untilMs };
  }
  const attempted = tried.some(({ kind }) => kind !== 'held');
  const attempts = begun.attempt + (attempted ? 1 : 0);
  const over = Object.keys(left).length === 0;
  const so: Progressed = {
    ...figures,
    left,
    ...(providerIds.length > 0 ? { provider_ids: providerIds } : {}),
  };
  return {
    ...(over || attempted ? { outcome: outcomeOf(results, so, attempts, begun.nowMs) } : {}),
    ...(over ? {} : { again: { ...so, left, attempt: attempts } }),
  };
}

/** How far a delivery has come of which nothing more is tried. */
export function cameTo(progress: Progress | undefined): Pick<Outcome, 'providerId' | 'targets'> {
  return { providerId: progress?.provider_ids?.[0], targets: progress && targetsOf(progress) };
}

type Progressed = Omit<Again, 'attempt'>;

/** Where there is more than one. */
function targetsOf(so: Omit<Progress, 'left'> & { left: object }): Targets | undefined {
  const { accepted, gone, failed, provider_ids = [], left } = so;
  const several = accepted + gone + failed + Object.keys(left).length > 1;
  return several ? { accepted, gone, failed, provider_ids } : undefined;
}

type Outcome = NonNullable<Conclusion['outcome']>;

function outcomeOf(results: readonly Result[], so: Progressed, attempts: number, nowMs: number): Outcome {
  const over = Object.keys(so.left).length === 0;
  const state = so.accepted > 0 ? 'sent' : over ? 'failed' : 'retrying';
  const [first] = LOOKED_FOR[state].flatMap((kind) => results.filter((result) => result.kind === kind));
  const said = first === undefined ? (state === 'failed' ? TOKEN_DISCARDED : undefined) : first;
  return {
    state,
    attempts,
    integration: first?.integration,
    providerId: so.provider_ids?.[0],
    code: said !== undefined && 'code' in said ? said.code : undefined,
    reason: said !== undefined && 'reason' in said ? said.reason : undefined,
    targets: targetsOf(so),
    progress: over ? undefined : { ...so, left: timesOf(so.left, nowMs) },
  };
}

function timesOf(left: Progressed['left'], nowMs: number): Progress['left'] {
  return Object.fromEntries(
    Object.entries(left).map(([id, due]) => [id, 'delayMs' in due ? nowMs + due.delayMs : due.atMs]),
  );
}

/** Whose words are told: of the first of these, in this order. */
const LOOKED_FOR = {
  sent: ['accepted', 'retry', 'failed', 'gone'],
  retrying: ['retry', 'failed', 'gone'],
  failed: ['failed', 'gone'],
} as const;

const TOKEN_DISCARDED = { code: 'token_discarded', reason: 'the token was discarded' };

function count(results: readonly Result[], kind: Result['kind']): number {
  return results.filter((result) => result.kind === kind).length;
}

function providerIdOf(result: Result): readonly string[] {
  return result.kind === 'accepted' && result.providerId !== undefined ? [result.providerId] : [];
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
