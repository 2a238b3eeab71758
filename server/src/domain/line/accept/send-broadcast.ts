import type { NewBroadcast } from '../../../contract/broadcast.ts';
import { ClientError } from '../../../errors.ts';
import type { Clock } from '../../../lib/clock.ts';
import { isId, newId } from '../../../lib/ids.ts';
import { BULK, fanOutWeight, priorityFor } from '../../../queue/jobs.ts';
import type { IdempotencyKey } from '../../ground/requests/idempotency.ts';
import { broadcastProblems, unwrittenProblems } from '../broadcasts/problems.ts';
import {
  acceptedJson,
  countRecipients,
  packBroadcast,
  type RawBroadcast,
  storedBroadcast,
} from '../broadcasts/stored-broadcast.ts';
import type { Acceptor, PendingBroadcast, SentBroadcast } from './acceptor.ts';

/** How a broadcast is sent. With an id or a key it is sent at most once. */
export type SendOptions = {
  /** What the broadcast was parsed from: a request that was validated by the schema of a broadcast. */
  raw?: RawBroadcast | undefined;
} & (
  | {
      /**
       * The id that the broadcast gets: a new one (`newId`), which the caller keeps and sends again after a
       * failure.
       */
      id?: string;
      idempotency?: never;
    }
  | { id?: never; idempotency?: IdempotencyKey | undefined }
);

// What is longer is packed and committed alone, as are requests that were parsed in a thread.
const LONG_CHARACTERS = 512 * 1024;

/**
 * Accepts a broadcast: resolves when it is committed, with the job that fans it out, or with its
 * notifications when they are known (known-recipients.ts). The only way to send, for every interface and for
 * the server itself. Throws `validation_failed` with all problems, and `idempotency_conflict` for a key that
 * was used for another request.
 */
export async function sendBroadcast(
  { acceptor, clock }: { acceptor: Acceptor; clock: Clock },
  project: { id: string },
  broadcast: NewBroadcast,
  { raw, id, idempotency }: SendOptions = {},
): Promise<SentBroadcast> {
  const problems = raw === undefined ? broadcastProblems(broadcast) : unwrittenProblems(broadcast);
  if (problems.length > 0) throw new ClientError('validation_failed', problems);
  if (id !== undefined && !isBroadcastId(id)) throw new Error(`${id} cannot be the id of a broadcast`);
  const once = id !== undefined ? 'by id' : idempotency !== undefined ? 'by key' : undefined;
  const isLong = raw?.members !== undefined || (broadcast.content?.length ?? 0) > LONG_CHARACTERS;
  return acceptor.accept({ once, isLong }, () =>
    prepare(project.id, id ?? newId(clock.now()), broadcast, raw, idempotency),
  );
}

/** A lower-case UUIDv7: notifications take their time from it. */
function isBroadcastId(id: string): boolean {
  return isId(id) && id[14] === '7' && id === id.toLowerCase();
}

async function prepare(
  projectId: string,
  id: string,
  broadcast: NewBroadcast,
  raw: RawBroadcast | undefined,
  idempotency: IdempotencyKey | undefined,
): Promise<PendingBroadcast> {
  const stored = storedBroadcast(broadcast, raw);
  const { category, topic, messageJson, overridesJson } = stored;
  const recipients = broadcast.recipients ?? [];
  const { named, subscribers, ofFirstPage } = countRecipients(recipients);
  const columns = await packBroadcast(stored);
  const { message, inApp } = columns;
  const json = acceptedJson(id, stored);
  const characters = messageJson.length + (overridesJson?.length ?? 0);
  return {
    id,
    projectId,
    idempotency,
    category,
    topic,
    columns,
    named,
    content: { projectId, category, topic, message, inApp, recipients },
    // The number of a topic's subscribers is unknown here; it may be a million.
    priority: subscribers ? BULK : priorityFor(named),
    weight: fanOutWeight({ recipients: ofFirstPage, characters }),
    json,
    // The bytes of the statement: those of a response that is stored too, and is not deflated.
    bytes:
      message.length +
      (columns.overrides?.length ?? 0) +
      (columns.recipients?.length ?? 0) +
      (idempotency === undefined ? 0 : json.length),
  };
}
