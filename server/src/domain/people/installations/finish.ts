import type { FinishInstallation } from '../../../contract/installation.ts';
import type { Database } from '../../../db/client.ts';
import { ClientError } from '../../../errors.ts';
import { exchangeCode } from '../../../providers/slack/oauth.ts';
import type { StoredInstallation } from './record.ts';
import { saveGranted } from './save.ts';
import { type Installing, requireApp, type SlackDeps } from './start.ts';
import { isStateOf } from './state.ts';

/**
 * Exchanges the code with which Slack redirected the user, and saves the installation. Throws 422 if Slack
 * rejects it, and 503 if Slack does not respond: the code may then be used up, and the user has to start
 * again.
 */
export async function finishInstallation(
  deps: SlackDeps & { db: Pick<Database, 'query' | 'transaction'> },
  { signingKeys, ...installer }: Installing,
  { app_id: appId, code, redirect_url: redirectUrl, state }: FinishInstallation,
): Promise<StoredInstallation> {
  const app = await requireApp(deps, { ...installer, appId });
  if (state !== undefined && !(await isStateOf(deps, signingKeys, state, { ...installer, appId }))) {
    throw new ClientError('validation_failed', [
      "Param 'state' is not of an installation that this user has started within the hour",
    ]);
  }
  const request = { code, ...(redirectUrl === undefined ? {} : { redirectUrl }) };
  const response = await exchangeCode(deps.transport, app, request);
  if (response.kind === 'refused') throw refusal(response.code);
  if (response.kind === 'failed') {
    const seconds = Math.ceil(response.retryAfterMs / 1_000);
    throw new ClientError(
      'service_unavailable',
      [`${response.reason}. If the code is refused the next time, start the installation again`],
      { 'retry-after': `${seconds}` },
    );
  }
  const { grant } = response;
  if (grant.app_id !== appId) {
    throw new ClientError('verification_failed', [
      `Slack says that client_id and client_secret are those of the app ${grant.app_id}, not of ${appId}`,
    ]);
  }
  return saveGranted(deps, installer, grant);
}

const REFUSED_PARAMS: Record<string, string> = {
  invalid_code: 'code',
  code_already_used: 'code',
  bad_redirect_uri: 'redirect_url',
};
const REFUSED_APPS = new Set(['bad_client_secret', 'invalid_client_id']);

function refusal(code: string): ClientError {
  const param = REFUSED_PARAMS[code];
  if (param !== undefined)
    return new ClientError('validation_failed', [`Param '${param}' is not accepted by Slack: ${code}`]);
  if (REFUSED_APPS.has(code))
    return new ClientError('verification_failed', [
      `Slack does not accept the credentials of the app: ${code}`,
    ]);
  if (code === 'no_bot_token')
    return new ClientError('validation_failed', [
      'Slack has granted no bot token: the app has no bot scopes',
    ]);
  return new ClientError('validation_failed', [`Slack refuses the installation: ${code}`]);
}
