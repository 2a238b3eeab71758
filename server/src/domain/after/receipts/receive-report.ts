import { createHash } from 'node:crypto';
import type { Database, Queryable } from '../../../db/client.ts';
import { ClientError } from '../../../errors.ts';
import type { Clock } from '../../../lib/clock.ts';
import type { Sealer } from '../../../lib/seal.ts';
import type { IntegrationName } from '../../../providers/index.ts';
import type { ReceiptReader, Report, ReportRequest } from '../../../providers/provider.ts';
import type { OriginSetting, Transport } from '../../../providers/shared/transport.ts';
import type { Bus, RealtimeMessage } from '../../ground/bus/messages.ts';
import { readReceiptToken } from '../../ground/links/reference.ts';
import { runOnce } from '../../ground/requests/idempotency.ts';
import type { AddressKeys } from '../../ground/suppressions/address-keys.ts';
import type { TokenDiscarder } from '../../people/tokens/discard-gone.ts';
import { findIntegrationsById } from '../../setup/integrations/find.ts';
import type { ProjectCache } from '../../setup/projects/cache.ts';
import { certificateAt } from './certificate.ts';
import { discardChats } from './discard-chats.ts';
import { type ReceiptSource, recordReceipts } from './record.ts';

interface Deps {
  db: Database;
  sealer: Sealer;
  clock: Clock;
  bus: Bus;
  projects: ProjectCache;
  transport: Transport;
  addressKeys: AddressKeys;
  config: { readonly BRAND: string };
  discarder: Pick<TokenDiscarder, 'discard'>;
}

/** A provider whose vendor reports the delivery status of messages. */
export interface Reporting {
  name: IntegrationName;
  channel: string;
  reader: ReceiptReader<Record<string, unknown>>;
}

/**
 * Receives a vendor's report for the integration with this id. Returns the challenge that the vendor expects,
 * if any. Throws `invalid_signature` for a wrong signature and for an unknown integration alike, so that
 * callers cannot find out which ids exist.
 */
export async function receiveReport(
  deps: Deps,
  { name, channel, reader }: Reporting,
  id: string,
  request: Omit<ReportRequest, 'nowMs'>,
): Promise<{ challenge?: string }> {
  const given = { ...request, nowMs: deps.clock.now() };
  let signed: Report | undefined;
  // Ids are unique only within a project, so the secret decides. SES has only the name of a topic, which
  // another project could save, too: it must not receive a report in place of the first.
  for (const { projectId, config } of await findIntegrationsById(deps, name, id)) {
    const judged = await withProofs(deps, reader, { projectId, id, config }, given);
    if (!reader.isSigned(judged, config)) continue;
    const report = readOrThrow(reader, judged);
    const source = { projectId, integrationId: id, provider: name, channel };
    if (report.gone) await discardChats(deps, { projectId, provider: name }, report.gone);
    if (report.receipts) await record(deps, source, report, given.body);
    await confirm(deps.transport, reader, report);
    signed ??= report;
  }
  if (signed === undefined) throw new ClientError('invalid_signature');
  return signed.challenge === undefined ? {} : { challenge: signed.challenge };
}

/** Receives a vendor's report about an app that belongs to the server. It counts for every project. */
export async function receiveServerReport(
  deps: Deps,
  { name, reader }: Pick<Reporting, 'name' | 'reader'>,
  config: Record<string, unknown>,
  request: Omit<ReportRequest, 'nowMs'>,
): Promise<{ challenge?: string }> {
  const given = { ...request, nowMs: deps.clock.now() };
  if (!reader.isSigned(given, config)) throw new ClientError('invalid_signature');
  const { gone, challenge } = readOrThrow(reader, given);
  if (gone) await discardChats(deps, { provider: name }, gone);
  return challenge === undefined ? {} : { challenge };
}

/** Adds what the signature is verified with: the reference in the URL, and the certificate. */
async function withProofs(
  { projects, transport }: Pick<Deps, 'projects' | 'transport'>,
  reader: ReceiptReader<Record<string, unknown>>,
  { projectId, id, config }: { projectId: string; id: string; config: Record<string, unknown> },
  request: ReportRequest,
): Promise<ReportRequest> {
  const token = URL.parse(request.url)?.searchParams.get('token');
  const project = token ? await projects.byId(projectId) : undefined;
  const reference = token && project ? readReceiptToken(project.signingKeys, id, token) : undefined;
  const url = reader.certificateUrl?.(request, config);
  const certificate = url && (await certificateAt(transport, settingOf(reader), url));
  return {
    ...request,
    reference,
    ...(certificate ? { certificate } : {}),
  };
}

function readOrThrow(reader: ReceiptReader<Record<string, unknown>>, request: ReportRequest): Report {
  const report = reader.read(request);
  if (report === undefined) throw new ClientError('validation_failed', ['The webhook cannot be read']);
  return report;
}

const MAX_ONCE_CHARACTERS = 255;

/** Records all receipts or none, because vendors repeat the whole request. */
async function record(
  deps: Deps,
  source: ReceiptSource,
  { receipts = [], once }: Report,
  body: Buffer,
): Promise<void> {
  if (receipts.length === 0) return;
  const held: RealtimeMessage[] = [];
  const bus: Bus = {
    publish: (message) => void held.push(message),
    subscribe: (handler) => deps.bus.subscribe(handler),
  };
  const work = (tx: Queryable) => recordReceipts({ ...deps, tx, bus }, source, receipts);
  if (once === undefined) await deps.db.transaction(work);
  else await onceOnly(deps, source, { once, body }, work);
  for (const message of held) deps.bus.publish(message);
}

/** Rejects another request with the same text `once`. The same request has no further effect. */
async function onceOnly(
  deps: Deps,
  { projectId, provider, integrationId }: ReceiptSource,
  { once, body }: { once: string; body: Buffer },
  work: (tx: Queryable) => Promise<void>,
): Promise<void> {
  if (once.length > MAX_ONCE_CHARACTERS || !once.isWellFormed() || once.includes('\0'))
    throw new ClientError('invalid_signature');
  const requestHash = createHash('sha256').update(body).digest();
  const key = { projectId, scope: `receipts:${provider}:${integrationId}`, key: once, requestHash };
  try {
    await runOnce(deps, key, async (tx) => {
      await work(tx);
      return { status: 200, body: '{}' };
    });
  } catch (error) {
    const isReplay = error instanceof ClientError && error.code === 'idempotency_conflict';
    throw isReplay ? new ClientError('invalid_signature') : error;
  }
}

async function confirm(
  transport: Transport,
  reader: Pick<Reporting['reader'], 'originSetting'>,
  { confirmUrl }: Report,
): Promise<void> {
  if (confirmUrl === undefined) return;
  const { origin, pathname, search } = new URL(confirmUrl);
  const response = await transport
    .vendor(settingOf(reader), origin)
    .request({ method: 'GET', path: `${pathname}${search}` });
  if (!('error' in response) && response.status === 200) return;
  throw new ClientError('service_unavailable', ['The subscription could not be confirmed: try again later']);
}

function settingOf({ originSetting }: Pick<Reporting['reader'], 'originSetting'>): OriginSetting {
  if (originSetting === undefined) throw new Error('The reader of reports names no setting for its origin');
  return originSetting;
}
