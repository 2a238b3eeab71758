import { createHash } from 'node:crypto';
import type { Database, Queryable } from '../../../db/client.ts';
import { ClientError } from '../../../errors.ts';
import type { Sealer } from '../../../lib/seal.ts';
import { shortenJson } from '../../../lib/shorten-json.ts';
import { takeTurns } from '../../../lib/take-turns.ts';
import type { IntegrationName } from '../../../providers/index.ts';
import type { ReceivedRequest, Receiver } from '../../../providers/provider.ts';
import { recordEvents } from '../../ground/events/record.ts';
import { isFirstUse, runOnce } from '../../ground/requests/idempotency.ts';
import { retryOnConflict } from '../../people/users/retry-on-conflict.ts';
import { findIntegrationsById } from '../../setup/integrations/find.ts';
import { type InboundContext, startForInbound } from '../../workflows/triggers/start-for-inbound.ts';

/** Of the payload as JSON: a webhook becomes an event, which is read together with others. */
export const MAX_PAYLOAD_BYTES = 256 * 1024;

const MAX_NAME = 255;
// Verified where there is no integration, so that it takes as long as a wrong signature.
const NO_INTEGRATION = { webhook_signing_secret: 'none' };

/**
 * Receives a vendor's webhook for the integration with this id, records it as an event of the project, and
 * starts the workflow of its name. Repetitions within a day are recorded once; where the vendor does not sign
 * delivery ids, also those under another id. Throws `invalid_signature` for a wrong signature and for an
 * unknown integration alike, so that callers cannot find out which ids exist.
 */
export async function receiveWebhook(
  context: InboundContext & { db: Database; sealer: Sealer },
  { provider, receiver }: { provider: IntegrationName; receiver: Receiver<Record<string, unknown>> },
  id: string,
  request: ReceivedRequest,
): Promise<void> {
  // Ids are unique only within a project, so the secret decides.
  const candidates = await findIntegrationsById(context, provider, id);
  const nextPart = takeTurns(); // of a body of 5 MB, each part takes up to 40 ms
  const found = candidates.find(({ config }) => receiver.isSigned(request, config));
  if (candidates.length === 0) receiver.isSigned(request, NO_INTEGRATION);
  if (found === undefined) throw new ClientError('invalid_signature');
  await nextPart();
  const received = receiver.read(request);
  if (received === undefined || !isName(received.event) || !isName(received.deliveryId))
    throw new ClientError('validation_failed', ['The webhook cannot be read']);
  const { event, deliveryId, signature } = received;
  await nextPart();
  const mayBeLong = request.body.length > MAX_PAYLOAD_BYTES;
  const payload = mayBeLong ? shortenJson(received.payload, MAX_PAYLOAD_BYTES) : received.payload;
  if (payload === undefined) throw new ClientError('payload_too_large', [TOO_MANY_MEMBERS]);
  const keyed = (key: string, scope: string) => ({
    projectId: found.projectId,
    scope: `${scope}:${provider}:${found.id}`,
    key,
    // A repetition may differ in its data about the delivery.
    requestHash: createHash('sha256').update(key).digest(),
  });
  let afterCommit = () => {};
  const receive = async (tx: Queryable) => {
    const done = { status: 201, body: '{}' };
    // An attacker can repeat a request under another id. It gets the same response.
    if (signature !== undefined) {
      const isNew = await isFirstUse({ tx, clock: context.clock }, keyed(signature, 'inbound-signature'));
      if (!isNew) return done;
    }
    const about = { provider, integration_id: found.id, event, delivery_id: deliveryId };
    await recordEvents(tx, [
      {
        projectId: found.projectId,
        type: 'integration.received',
        details: { ...(payload === received.payload ? {} : SHORTENED), context: about, payload },
      },
    ]);
    afterCommit = await startForInbound(tx, context, found.projectId, { provider, event, payload });
    return done;
  };
  await retryOnConflict(() => runOnce(context, keyed(deliveryId, 'inbound'), receive));
  afterCommit();
}

const SHORTENED = {
  level: 'warn',
  log: 'The body was longer than 256 KiB: long lists and texts of the payload are cut',
} as const;
const TOO_MANY_MEMBERS = 'The webhook has too many members to be shortened to 256 KiB';

function isName(text: string): boolean {
  return text.length > 0 && text.length <= MAX_NAME && text.isWellFormed() && !text.includes('\0');
}
