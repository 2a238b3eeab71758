import { type Database, type Queryable, sql } from '../../../db/client.ts';
import type { Clock } from '../../../lib/clock.ts';
import type { Logger } from '../../../lib/log.ts';
import type { Sealer } from '../../../lib/seal.ts';
import { waitMs } from '../../../lib/wait.ts';
import { wireNameOf } from '../../../providers/index.ts';
import type { Transport } from '../../../providers/shared/transport.ts';
import { type RenewedTokens, renewTokens } from '../../../providers/slack/oauth.ts';
import { recordEvents } from '../../ground/events/record.ts';
import { findSlackApp, type SlackbotSettings } from './app.ts';
import {
  ALL_USERS,
  expiryOf,
  type HeldInstallation,
  type InstallationKey,
  keyColumns,
  openRecord,
  type StoredInstallation,
  sealRecord,
} from './record.ts';

export interface RenewDeps {
  db: Database;
  sealer: Sealer;
  clock: Clock;
  log: Logger;
  transport: Transport;
  config: SlackbotSettings;
}

/** `busy`: another node is renewing it. `changed`: the caller has to read the installation again. */
export type Renewed =
  | { kind: 'token'; token: string }
  | { kind: 'busy' }
  | { kind: 'changed' }
  | { kind: 'retry'; reason: string; retryAfterMs: number }
  | { kind: 'config'; reason: string; code: string };

// Errors about the app, not about the installation.
const OF_THE_APP = new Set(['bad_client_secret', 'invalid_client_id']);
const CONFIG_RETRY_MS = 5 * 60_000;
// The refresh token is used up, so the new tokens must be stored: retry for this long.
const KEEP_FOR_MS = 30_000;
// How much longer the lease is than the request and the storing.
const LEASE_SPARE_MS = 15_000;

/**
 * Renews the tokens of an installation. A lease on the row excludes other nodes during the request to Slack,
 * without a transaction. The new tokens replace only the refresh token that they were exchanged for, even if
 * the lease has expired.
 *
 * If Slack's response is lost, so are the new tokens. The next attempt fails, because the old refresh token
 * is used up. The installation is then broken, which an event reports, and its access token is used until it
 * expires.
 */
export async function renewInstallation(deps: RenewDeps, held: HeldInstallation): Promise<Renewed> {
  const { key, record } = held;
  if (record?.refresh_token === undefined) return { kind: 'changed' };
  const { projectId, provider } = key;
  const app = await findSlackApp(deps, { projectId, provider, appId: record.app_id });
  if ('problem' in app) return { kind: 'config', code: 'no_app', reason: app.problem };
  const leased = await lease(deps, held, record.refresh_token);
  if (leased !== true) return leased;
  const response = await renewTokens(deps.transport, app, record.refresh_token);
  switch (response.kind) {
    case 'granted':
      await keep(deps, key, record.refresh_token, response.grant);
      return { kind: 'token', token: response.grant.access_token };
    case 'failed':
      await giveBack(deps, held, response.retryAfterMs);
      return { kind: 'retry', reason: response.reason, retryAfterMs: response.retryAfterMs };
    case 'refused': {
      const { code } = response;
      if (OF_THE_APP.has(code)) {
        await giveBack(deps, held, CONFIG_RETRY_MS);
        return { kind: 'config', code, reason: `Slack does not accept the credentials of the app: ${code}` };
      }
      await markBroken(deps, key, record.refresh_token, code);
      return { kind: 'changed' };
    }
  }
}

/** Takes the lease if the installation is unchanged. */
async function lease(
  { db, sealer, transport: { timeouts } }: RenewDeps,
  { key, expiresAt }: HeldInstallation,
  refreshToken: string,
): Promise<true | Renewed> {
  const leaseMs = timeouts.connectMs + 2 * timeouts.replyMs + KEEP_FOR_MS + LEASE_SPARE_MS;
  const [taken] = await db.query<Row>(takeLease, [...keyColumns(key), leaseMs, expiresAt]);
  if (taken === undefined) return { kind: 'busy' };
  if (openRecord<StoredInstallation>(sealer, key, taken.sealed_record)?.refresh_token === refreshToken)
    return true;
  await db.query(endLease, [...keyColumns(key), null, expiresAt]);
  return { kind: 'changed' };
}

async function giveBack(
  { db, clock }: RenewDeps,
  { key, expiresAt }: HeldInstallation,
  retryAfterMs: number,
): Promise<void> {
  await db.query(endLease, [...keyColumns(key), new Date(clock.now() + retryAfterMs), expiresAt]);
}

/** Stores the new tokens, with retries. */
async function keep(
  deps: RenewDeps,
  key: InstallationKey,
  used: string,
  tokens: RenewedTokens,
): Promise<void> {
  const expiresAt = expiryOf(tokens, deps.clock.now());
  const startedAt = performance.now();
  for (let pauseMs = 100; ; pauseMs *= 2) {
    try {
      await deps.db.transaction(async (tx) => {
        const current = await lockRecord(tx, deps.sealer, key, used);
        if (current === undefined) return; // it was installed again, which is newer
        const { refresh_token: _used, expires_in: _former, ...rest } = current;
        // Slack's documentation promises a new refresh token. Without one, keep the old one.
        const renewed = { refresh_token: used, ...rest, ...tokens };
        await tx.query(keepPair, [...keyColumns(key), sealRecord(deps.sealer, key, renewed), expiresAt]);
      });
      return;
    } catch (error) {
      const about = { err: error, projectId: key.projectId, installationId: key.id };
      const over = performance.now() - startedAt + pauseMs > KEEP_FOR_MS;
      if (over) {
        deps.log.error(
          about,
          'renewed tokens of Slack could not be stored; install the app again before the present one expires',
        );
        return; // the caller can still post with the new access token
      }
      deps.log.warn(
        { ...about, retryMs: pauseMs },
        'renewed tokens of Slack could not be kept yet; trying again',
      );
      await waitMs(pauseMs);
    }
  }
}

/** Marks the installation as broken, unless its refresh token has changed. */
async function markBroken(deps: RenewDeps, key: InstallationKey, used: string, code: string): Promise<void> {
  const { projectId, provider, id, ownerId } = key;
  const name = wireNameOf(provider, deps.config.BRAND);
  await deps.db.transaction(async (tx) => {
    if ((await lockRecord(tx, deps.sealer, key, used)) === undefined) return;
    await tx.query(breakInstallation, [...keyColumns(key), code]);
    await recordEvents(tx, [
      {
        projectId,
        type: 'installation.broken',
        ...(ownerId === ALL_USERS ? {} : { userIds: [ownerId] }),
        details: {
          level: 'error',
          log: `Slack does not renew the installation: ${code}. Install it again.`,
          context: { provider: name, code },
          payload: { id, name },
        },
      },
    ]);
  });
}

/** Locks the record, and returns it if it still has this refresh token. */
async function lockRecord(
  tx: Queryable,
  sealer: Sealer,
  key: InstallationKey,
  refreshToken: string,
): Promise<StoredInstallation | undefined> {
  const [row] = await tx.query<Row>(lockInstallation, keyColumns(key));
  const record = row && openRecord<StoredInstallation>(sealer, key, row.sealed_record);
  return record?.refresh_token === refreshToken ? record : undefined;
}

interface Row {
  sealed_record: Buffer;
}

// Primary key, all of them. The lease uses the database's clock, which all nodes share.
const takeLease = sql(
  'lease_installation',
  `update installations
  set renewing_until = now() + $5 * interval '1 millisecond'
  where project_id = $1 and provider = $2 and id = $3 and owner_id = $4
    and (renewing_until is null or renewing_until < now())
    and broken_code is null and expires_at is not distinct from $6
  returning sealed_record`,
);
const endLease = sql(
  'end_installation_lease',
  `update installations
  set renewing_until = null, retry_at = $5
  where project_id = $1 and provider = $2 and id = $3 and owner_id = $4
    and expires_at is not distinct from $6`,
);
const lockInstallation = sql(
  'lock_installation_record',
  `select sealed_record
  from installations
  where project_id = $1 and provider = $2 and id = $3 and owner_id = $4
  for no key update`,
);
const keepPair = sql(
  'keep_renewed_tokens',
  `update installations
  set sealed_record = $5, expires_at = $6, renewing_until = null, retry_at = null, broken_code = null,
    updated_at = now()
  where project_id = $1 and provider = $2 and id = $3 and owner_id = $4`,
);
const breakInstallation = sql(
  'break_installation',
  `update installations
  set broken_code = $5, renewing_until = null, retry_at = null, updated_at = now()
  where project_id = $1 and provider = $2 and id = $3 and owner_id = $4`,
);
