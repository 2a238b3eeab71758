import { notificationId } from '../lib/ids.ts';
import type { Job, JobKind, JobPayloads } from './jobs.ts';

type AnyPayload = JobPayloads[JobKind];
type NameIn<Payload> = Payload extends unknown ? keyof Payload : never;

// What payloads contain besides these is long, or says nothing about whose work it is.
const NAMES: readonly NameIn<AnyPayload>[] = [
  'broadcast_id',
  'channel',
  'user_id',
  'user_ids',
  'notification_id',
  'webhook_id',
  'event_ids',
  'integration_id',
  'provider',
  'import_id',
  'page',
  'run_id',
  'turn',
  'workflow_key',
];
const MAX_LISTED = 10;

/** What a line of the log says about a job, so that it can be found: ids and names, no content or secrets. */
export function jobFacts({
  id,
  kind,
  projectId,
  partitionKey,
  payload,
}: Pick<Job, 'id' | 'kind' | 'projectId' | 'partitionKey' | 'payload'>) {
  const of = payload as Readonly<Record<string, unknown>>;
  const ids = Object.fromEntries(
    NAMES.flatMap((name) => (of[name] === undefined ? [] : [[name, shortened(of[name])]])),
  );
  return {
    kind,
    job: id,
    projectId,
    ...(partitionKey === projectId ? {} : { partition: partitionKey }),
    payload: { ...ids, ...derivedFrom(payload) },
  };
}

/** Ids that are not members of a payload, but those by which someone would look for it. */
function derivedFrom(payload: AnyPayload) {
  if ('sent' in payload)
    return { broadcast_ids: shortened([...new Set(payload.sent.map((one) => one.broadcast_id))]) };
  if (!('user_ids' in payload)) return {};
  const { broadcast_id: broadcastId, user_ids: userIds } = payload;
  return { notification_ids: shortened(userIds.map((userId) => notificationId(broadcastId, userId))) };
}

/** A long list as its first items and the number of the others. */
function shortened(value: unknown): unknown {
  if (!Array.isArray(value) || value.length <= MAX_LISTED) return value;
  return [...value.slice(0, MAX_LISTED), `and ${value.length - MAX_LISTED} more`];
}
