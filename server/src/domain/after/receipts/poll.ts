import { pollsOf } from '../../../providers/index.ts';
import type { PolledReceipt, Receipt, ReceiptPoll } from '../../../providers/provider.ts';
import { backoff } from '../../../queue/backoff.ts';
import { complete } from '../../../queue/complete.ts';
import { enqueue } from '../../../queue/enqueue.ts';
import { type Handler, ONE_JOB } from '../../../queue/handler.ts';
import type { Job, NewJob } from '../../../queue/jobs.ts';
import type { Context } from '../../context.ts';
import { referenceOf } from '../../ground/links/reference.ts';
import type { TokenDiscarder } from '../../people/tokens/discard-gone.ts';
import type { GoneToken } from '../../people/tokens/gone-token.ts';
import { recordReceipts } from './record.ts';

// Vendors keep the status for a day.
const LIFETIME_MS = 24 * 3_600_000;

type Deps = Context & { discarder: Pick<TokenDiscarder, 'discard'> };
type PollJob = Job<'poll_receipts'>;

/** Polls providers that send no reports for the delivery status of messages, with one request per job. */
export function pollHandler(deps: Deps): Handler<'poll_receipts'> {
  return {
    work: 'bulk',
    slots: 4,
    slotsPerPartition: 1,
    ...ONE_JOB,
    async run(jobs, leaseId) {
      for (const job of jobs) await poll(deps, job, leaseId);
      return [];
    },
    discard: (job, leaseId) => complete(deps.db, leaseId, [job.id]),
  };
}

async function poll(deps: Deps, job: PollJob, leaseId: string): Promise<void> {
  const { payload, projectId } = job;
  const polls = pollsOf(payload.provider);
  const integrations = await deps.integrations.of(projectId);
  const integration = integrations.find(
    ({ id, provider }) => id === payload.integration_id && provider === payload.provider,
  );
  // The integration was deleted, so there are no credentials.
  if (polls === undefined || integration === undefined) return complete(deps.db, leaseId, [job.id]);
  if (integration.unreadable !== undefined)
    return end(deps, { job, leaseId, again: afterFailure(job, deps.clock.now()) });
  const ids = payload.sent.map(({ id }) => id);
  const response = await polls.fetch(ids, integration.config, deps);
  if (response.kind === 'failed') {
    const again = afterFailure(job, deps.clock.now(), response.retryAfterMs);
    deps.log.debug(
      { projectId, provider: payload.provider, reason: response.reason },
      'the receipts could not be fetched',
    );
    return end(deps, { job, leaseId, again });
  }
  // Before the end of the job. It may run twice, which does no harm.
  await deps.discarder.discard(goneOf(job, integration.channel, response.receipts));
  const receipts = receiptsOf(job, response.receipts, new Date(deps.clock.now()));
  const again = nextRound(job, polls, response.receipts, deps.clock.now());
  await end(deps, { job, leaseId, again, channel: integration.channel, receipts });
}

async function end(
  deps: Deps,
  {
    job: { id, projectId, payload },
    leaseId,
    again,
    channel = '',
    receipts = [],
  }: {
    job: PollJob;
    leaseId: string;
    again: readonly NewJob<'poll_receipts'>[];
    channel?: string;
    receipts?: readonly Receipt[];
  },
): Promise<void> {
  const source = { projectId, integrationId: payload.integration_id, provider: payload.provider, channel };
  await deps.db.transaction(async (tx) => {
    await complete(tx, leaseId, [id]);
    if (receipts.length > 0) await recordReceipts({ ...deps, tx }, source, receipts);
    await enqueue(tx, again);
  });
}

type Polled = ReadonlyMap<string, PolledReceipt>;

function receiptsOf({ payload }: PollJob, polled: Polled, at: Date): Receipt[] {
  return payload.sent.flatMap(({ id, broadcast_id: broadcastId, user_id: userId }) => {
    const said = polled.get(id);
    if (said === undefined) return [];
    const { kind, code, reason } = said;
    return [
      {
        kind,
        at,
        reference: referenceOf({ broadcastId, userId }),
        code,
        reason,
      },
    ];
  });
}

/** Returns the tokens of devices that are gone, unless they were saved again since. */
function goneOf({ payload, projectId }: PollJob, channel: string, polled: Polled): GoneToken[] {
  const goneAt = new Date(payload.sent_ms);
  return payload.sent.flatMap(({ id, user_id: userId, token_id: tokenId }) => {
    const said = polled.get(id);
    if (said?.tokenGone !== true) return [];
    const { code, reason = `${payload.provider} reports that the device is gone` } = said;
    const token = { projectId, userId, tokenId, channel: `${channel}/${payload.provider}` };
    return [{ ...token, scope: 'token' as const, goneAt, reason, code }];
  });
}

/** Returns the job that polls for the remaining messages, until the last round. */
function nextRound(
  job: PollJob,
  { afterMs }: Pick<ReceiptPoll<never>, 'afterMs'>,
  polled: Polled,
  nowMs: number,
): NewJob<'poll_receipts'>[] {
  const { payload } = job;
  const sent = payload.sent.filter(({ id }) => !polled.has(id));
  const round = payload.round + 1;
  const after = afterMs[round];
  if (sent.length === 0 || after === undefined) return [];
  const dueAtMs = Math.max(payload.sent_ms + after, nowMs + MIN_PAUSE_MS);
  return [nextJob(job, dueAtMs, { sent, round, failures: 0 })];
}

const MIN_PAUSE_MS = 60_000;

function afterFailure(job: PollJob, nowMs: number, retryAfterMs?: number): NewJob<'poll_receipts'>[] {
  const failures = job.payload.failures + 1;
  const dueAtMs = nowMs + backoff(failures, { retryAfterMs });
  return dueAtMs > job.payload.sent_ms + LIFETIME_MS ? [] : [nextJob(job, dueAtMs, { failures })];
}

function nextJob(
  { projectId, priority, payload }: PollJob,
  dueAtMs: number,
  changes: Partial<PollJob['payload']>,
): NewJob<'poll_receipts'> {
  const changed = { ...payload, ...changes };
  return {
    kind: 'poll_receipts',
    projectId,
    priority,
    weight: changed.sent.length,
    dueAtMs,
    payload: changed,
  };
}
