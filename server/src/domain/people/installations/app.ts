import type { Queryable } from '../../../db/client.ts';
import type { Sealer } from '../../../lib/seal.ts';
import { wireNameOf } from '../../../providers/index.ts';
import type { SlackApp } from '../../../providers/slack/oauth.ts';
import { findIntegrations } from '../../setup/integrations/find.ts';

/** The project's own Slack app, or the server's. */
export type SlackProvider = 'slack' | 'slackbot';

/** The settings of the server's own Slack app. */
export interface SlackbotSettings {
  readonly BRAND: string;
  readonly SLACKBOT_APP_ID: string | undefined;
  readonly SLACKBOT_CLIENT_ID: string | undefined;
  readonly SLACKBOT_CLIENT_SECRET: string | undefined;
}

interface Deps {
  db: Queryable;
  sealer: Sealer;
  config: SlackbotSettings;
}

/** Finds the app with this id, or returns why the project may not use it. */
export async function findSlackApp(
  deps: Deps,
  { projectId, provider, appId }: { projectId: string; provider: SlackProvider; appId: string },
): Promise<SlackApp | { problem: string }> {
  return provider === 'slack' ? ownApp(deps, projectId, appId) : serversApp(deps, projectId, appId);
}

async function ownApp(deps: Deps, projectId: string, appId: string): Promise<SlackApp | { problem: string }> {
  const found = await findIntegrations(deps, projectId, 'slack');
  const config = found.find((one) => one.config.app_id === appId)?.config;
  if (config === undefined)
    return { problem: "Param 'app_id' is not the app of a slack integration of the project" };
  return { appId, clientId: config.client_id, clientSecret: config.client_secret };
}

async function serversApp(
  deps: Deps,
  projectId: string,
  appId: string,
): Promise<SlackApp | { problem: string }> {
  const { BRAND, SLACKBOT_APP_ID, SLACKBOT_CLIENT_ID, SLACKBOT_CLIENT_SECRET } = deps.config;
  const found = await findIntegrations(deps, projectId, 'slackbot');
  if (!found.some((one) => one.config.enabled))
    return { problem: `The ${wireNameOf('slackbot', BRAND)} integration of the project is not enabled` };
  if (!SLACKBOT_APP_ID || !SLACKBOT_CLIENT_ID || !SLACKBOT_CLIENT_SECRET)
    return {
      problem:
        'This server has no Slack app of its own: its operator has to set SLACKBOT_APP_ID, ' +
        'SLACKBOT_CLIENT_ID and SLACKBOT_CLIENT_SECRET',
    };
  if (appId !== SLACKBOT_APP_ID) return { problem: "Param 'app_id' is not the Slack app of this server" };
  return { appId, clientId: SLACKBOT_CLIENT_ID, clientSecret: SLACKBOT_CLIENT_SECRET };
}
