import { integrations } from '../../../providers/index.ts';
import type { Integration } from '../../../providers/provider.ts';
import { BULK, type NewJob } from '../../../queue/jobs.ts';
import type { AcceptedMessage, Delivery, TargetResult } from './delivery.ts';

/** The accepted messages of a delivery whose provider is polled for receipts. Pure. */
export function acceptedMessages(
  { projectId, broadcastId, userId }: Pick<Delivery, 'projectId' | 'broadcastId' | 'userId'>,
  sentMs: number,
  results: readonly TargetResult[],
): AcceptedMessage[] {
  return results.flatMap((result) => {
    const { targetId: tokenId, integration } = result;
    if (result.kind !== 'accepted' || result.providerId === undefined || integration === undefined) return [];
    const { id: integrationId, provider } = integration;
    if (pollsOf(provider) === undefined) return [];
    const { providerId } = result;
    return [{ projectId, integrationId, provider, broadcastId, userId, tokenId, providerId, sentMs }];
  });
}

/** The jobs that later poll for the receipts of messages. Pure. */
export function receiptJobs(accepted: readonly AcceptedMessage[]): NewJob<'poll_receipts'>[] {
  const groups = Map.groupBy(accepted, (one) => `${one.projectId} ${one.integrationId}`);
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
      // The earliest of them: a token that was saved since then is not discarded.
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

/** How a provider is polled for receipts, if it is. */
export function pollsOf(provider: string): Integration['polls'] {
  const known = integrations as unknown as Readonly<Record<string, Integration>>;
  return Object.hasOwn(known, provider) ? known[provider]?.polls : undefined;
}
