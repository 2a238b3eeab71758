import { integrations } from '../../../providers/index.ts';
import type { Integration } from '../../../providers/provider.ts';
import { BULK, type NewJob } from '../../../queue/jobs.ts';
import type { Result } from './conclude.ts';

/** A message that a provider has taken. */
export interface TakenMessage {
  projectId: string;
  integrationId: string;
  provider: string;
  broadcastId: string;
  userId: string;
  /** The token that it went to. */
  tokenId: string;
  /** What the provider calls it. */
  providerId: string;
  /** When its sending began: whoever saves a token after that says that it is there. */
  sentMs: number;
}

/** What of these results of one delivery a provider has taken that can be asked about it. Pure. */
export function takenMessages(
  of: { projectId: string; broadcastId: string; userId: string; sentMs: number },
  results: readonly Result[],
): TakenMessage[] {
  return results.flatMap((result) => {
    const { targetId: tokenId, integration } = result;
    if (result.kind !== 'accepted' || result.providerId === undefined || integration === undefined) return [];
    const { id: integrationId, provider } = integration;
    if (pollsOf(provider) === undefined) return [];
    return [{ ...of, integrationId, provider, tokenId, providerId: result.providerId }];
  });
}

/**
 * The jobs that ask later what became of messages; none where the provider tells by itself, or knows nothing.
 * Pure.
 */
export function receiptJobs(taken: readonly TakenMessage[]): NewJob<'poll_receipts'>[] {
  const groups = Map.groupBy(taken, (one) => `${one.projectId} ${one.integrationId}`);
  return [...groups.values()].flatMap((group) => {
    const [first] = group;
    const polls = first && pollsOf(first.provider);
    const [afterMs] = polls?.afterMs ?? [];
    if (first === undefined || polls === undefined || afterMs === undefined) return [];
    const { projectId, integrationId, provider } = first;
    const parts = Array.from({ length: Math.ceil(group.length / polls.maxIds) }, (_, index) =>
      group.slice(index * polls.maxIds, (index + 1) * polls.maxIds),
    );
    return parts.map((part): NewJob<'poll_receipts'> => {
      // Of the first of them: a token that was saved since then is not judged.
      const sentMs = Math.min(...part.map((one) => one.sentMs));
      return {
        kind: 'poll_receipts',
        projectId,
        priority: BULK,
        weight: part.length,
        dueAtMs: sentMs + afterMs,
        payload: {
          integration_id: integrationId,
          provider,
          sent_ms: sentMs,
          round: 0,
          failures: 0,
          sent: part.map(({ providerId: id, broadcastId, userId, tokenId }) => ({
            id,
            broadcast_id: broadcastId,
            user_id: userId,
            token_id: tokenId,
          })),
        },
      };
    });
  });
}

/** How a provider is asked, where it is. */
export function pollsOf(provider: string): Integration['polls'] {
  const known = integrations as unknown as Readonly<Record<string, Integration>>;
  return Object.hasOwn(known, provider) ? known[provider]?.polls : undefined;
}
