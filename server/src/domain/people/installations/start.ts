import type { StartedInstallation, StartInstallation } from '../../../contract/installation.ts';
import type { Queryable } from '../../../db/client.ts';
import { ClientError } from '../../../errors.ts';
import type { Clock } from '../../../lib/clock.ts';
import type { Sealer } from '../../../lib/seal.ts';
import type { Transport } from '../../../providers/shared/transport.ts';
import { authorizeUrl, type SlackApp, scopesWith } from '../../../providers/slack/oauth.ts';
import type { Project } from '../../setup/projects/cache.ts';
import { findSlackApp, type SlackbotSettings, type SlackProvider } from './app.ts';
import { signState } from './state.ts';

export interface SlackDeps {
  db: Queryable;
  sealer: Sealer;
  clock: Clock;
  transport: Transport;
  config: SlackbotSettings;
}

/** The user who installs an app, and the project's keys. */
export interface Installing {
  projectId: string;
  userId: string;
  provider: SlackProvider;
  signingKeys: Project['signingKeys'];
}

/**
 * Returns the address to which the project's app redirects a user who wants to connect Slack. Throws
 * `validation_failed` for an app that the project does not have.
 */
export async function startInstallation(
  deps: SlackDeps,
  { signingKeys, ...installer }: Installing,
  { app_id: appId, auth_url: base, extra_scopes: extra = [], redirect_url: redirectUrl }: StartInstallation,
): Promise<StartedInstallation> {
  const { clientId } = await requireApp(deps, { ...installer, appId });
  const scopes = scopesWith(extra);
  const state = await signState(deps, signingKeys[0].key, { ...installer, appId });
  const url = authorizeUrl(deps.transport, {
    clientId,
    scopes,
    state,
    ...(redirectUrl === undefined ? {} : { redirectUrl }),
    ...(base === undefined ? {} : { base }),
  });
  return { app_id: appId, auth_url: url, scopes };
}

/** Returns the app with this id. Throws `validation_failed` if the project may not use it. */
export async function requireApp(
  deps: Pick<SlackDeps, 'db' | 'sealer' | 'config'>,
  wanted: { projectId: string; provider: SlackProvider; appId: string },
): Promise<SlackApp> {
  const app = await findSlackApp(deps, wanted);
  if ('problem' in app) throw new ClientError('validation_failed', [app.problem]);
  return app;
}
