/**
 * Installs a Slack app in workspaces with OAuth, and refreshes its tokens.
 * https://docs.slack.dev/authentication/installing-with-oauth
 */
import type { SlackInstallation } from '../../contract/installation.ts';
import { retryAfter } from '../shared/http-outcome.ts';
import { type JsonResponse, requestJson } from '../shared/request-json.ts';
import type { Transport } from '../shared/transport.ts';

/** The credentials of a Slack app. */
export type SlackApp = { appId: string; clientId: string; clientSecret: string };

/** Slack's response to a code: an installation without its id. */
export type SlackGrant = Omit<SlackInstallation, 'id'>;

/** Slack's response to a refresh token. A refresh token is valid once. */
export type RenewedTokens = { access_token: string; refresh_token?: string; expires_in?: number };

/**
 * The result of a token request. `code` is Slack's error code. After `failed`, Slack may have granted the
 * tokens nevertheless.
 */
export type GrantResult<Granted> =
  | { kind: 'granted'; grant: Granted }
  | { kind: 'refused'; code: string }
  | { kind: 'failed'; reason: string; retryAfterMs: number };

// To post as the bot, and to a channel that the user picks (its incoming webhook).
const SCOPES = ['chat:write', 'incoming-webhook'];

/** Returns the scopes to request: those needed to post, and the caller's. */
export function scopesWith(extra: readonly string[]): string[] {
  return [...new Set([...SCOPES, ...extra])];
}

/**
 * Returns the address where a user authorizes the app. `base` replaces Slack's own address and keeps its
 * query.
 */
export function authorizeUrl(
  transport: Pick<Transport, 'vendor'>,
  request: {
    clientId: string;
    scopes: readonly string[];
    state: string;
    redirectUrl?: string;
    base?: string;
  },
): string {
  const own = transport.vendor('PROVIDER_SLACK_AUTHORIZE_URL', 'https://slack.com/oauth/v2/authorize').base;
  const url = new URL(request.base ?? own);
  url.searchParams.set('client_id', request.clientId);
  url.searchParams.set('scope', request.scopes.join(','));
  if (request.redirectUrl !== undefined) url.searchParams.set('redirect_uri', request.redirectUrl);
  url.searchParams.set('state', request.state);
  return url.href;
}

/** Exchanges the code of an authorization for tokens. A code is valid once. */
export async function exchangeCode(
  transport: Pick<Transport, 'vendor'>,
  app: SlackApp,
  { code, redirectUrl }: { code: string; redirectUrl?: string },
): Promise<GrantResult<SlackGrant>> {
  const form = { code, ...(redirectUrl === undefined ? {} : { redirect_uri: redirectUrl }) };
  return classify(await access(transport, app, form, [code]), grantIn);
}

/**
 * Exchanges a refresh token for new tokens. Once Slack has accepted it, it is invalid, even if the response
 * is lost.
 */
export async function renewTokens(
  transport: Pick<Transport, 'vendor'>,
  app: SlackApp,
  refreshToken: string,
): Promise<GrantResult<RenewedTokens>> {
  const form = { grant_type: 'refresh_token', refresh_token: refreshToken };
  return classify(await access(transport, app, form, [refreshToken]), tokensIn);
}

function access(
  transport: Pick<Transport, 'vendor'>,
  { clientId, clientSecret }: SlackApp,
  form: Record<string, string>,
  secrets: string[],
): Promise<JsonResponse> {
  return requestJson(transport.vendor('PROVIDER_SLACK_API_URL', 'https://slack.com/api'), {
    method: 'POST',
    path: '/oauth.v2.access',
    headers: {
      authorization: `Basic ${Buffer.from(`${clientId}:${clientSecret}`).toString('base64')}`,
      'content-type': 'application/x-www-form-urlencoded',
      accept: 'application/json',
    },
    body: new URLSearchParams(form).toString(),
    secrets: [...secrets, clientSecret],
  });
}

// Temporary errors of Slack.
const PASSING = new Set([
  'fatal_error',
  'internal_error',
  'ratelimited',
  'rate_limited',
  'request_timeout',
  'service_unavailable',
  'team_added_to_org',
]);
const RETRY_AFTER_MS = 30_000;

function classify<Granted>(
  { status, headers, json, summary }: JsonResponse,
  read: (json: Members) => Granted | undefined,
): GrantResult<Granted> {
  const failed = (reason: string): GrantResult<Granted> => ({
    kind: 'failed',
    reason,
    retryAfterMs: retryAfter(headers) || RETRY_AFTER_MS,
  });
  if (status === 0) return failed(`Slack did not respond: ${summary}`);
  const members = json as Members;
  const error = members.ok === false ? codeIn(members.error) : undefined;
  if (status === 429 || status >= 500) return failed(`Slack responded with ${status}`);
  if (members.ok === true) {
    const grant = read(members);
    return grant === undefined ? { kind: 'refused', code: 'no_bot_token' } : { kind: 'granted', grant };
  }
  if (error === undefined) return failed(`Slack responded with ${status} without an error code`);
  return PASSING.has(error) ? failed(`Slack responded with ${error}`) : { kind: 'refused', code: error };
}

type Members = Readonly<Record<string, unknown>>;

/** Returns Slack's error code, or `unknown_error` if it does not look like one. It is shown to people. */
function codeIn(error: unknown): string {
  return typeof error === 'string' && /^\w{1,100}$/.test(error) ? error : 'unknown_error';
}

/**
 * Returns the grant in a response, reduced to the fields of an installation; undefined if it contains no bot
 * token, workspace, installer or app.
 */
function grantIn(json: Members): SlackGrant | undefined {
  const tokens = tokensIn(json);
  const team = membersIn(json.team);
  const enterprise = membersIn(json.enterprise);
  const webhook = membersIn(json.incoming_webhook);
  // An organization-wide installation has no workspace.
  const workspace = idAndName(team) ?? idAndName(enterprise);
  const installer = textIn(membersIn(json.authed_user)?.id);
  const appId = textIn(json.app_id);
  if (tokens === undefined || workspace === undefined || installer === undefined || appId === undefined)
    return undefined;
  const organisation = idAndName(enterprise);
  return {
    ...tokens,
    ...textsIn(json, ['bot_user_id', 'scope', 'token_type']),
    app_id: appId,
    authed_user: {
      id: installer,
      ...textsIn(membersIn(json.authed_user), ['access_token', 'refresh_token', 'scope', 'token_type']),
      ...lifetimeIn(membersIn(json.authed_user)),
    },
    team: workspace,
    ...(organisation === undefined ? {} : { enterprise: { name: organisation.id, ...organisation } }),
    ...(typeof json.is_enterprise_install === 'boolean'
      ? { is_enterprise_install: json.is_enterprise_install }
      : {}),
    ...webhookIn(webhook),
  };
}

function tokensIn(json: Members): RenewedTokens | undefined {
  const token = textIn(json.access_token);
  if (token === undefined) return undefined;
  return { access_token: token, ...textsIn(json, ['refresh_token']), ...lifetimeIn(json) };
}

function webhookIn(webhook: Members | undefined): Pick<SlackGrant, 'incoming_webhook'> {
  const url = textIn(webhook?.url);
  const channel = textIn(webhook?.channel);
  const configuration = textIn(webhook?.configuration_url);
  if (url === undefined || channel === undefined || configuration === undefined) return {};
  return {
    incoming_webhook: { url, channel, configuration_url: configuration, ...textsIn(webhook, ['channel_id']) },
  };
}

function idAndName(value: Members | undefined): { id: string; name?: string } | undefined {
  const id = textIn(value?.id);
  return id === undefined ? undefined : { id, ...textsIn(value, ['name']) };
}

function lifetimeIn(value: Members | undefined): { expires_in?: number } {
  const lifetime = value?.expires_in;
  return typeof lifetime === 'number' && Number.isInteger(lifetime) && lifetime >= 0
    ? { expires_in: lifetime }
    : {};
}

/** Returns those of the members that are texts and not empty. */
function textsIn<Name extends string>(
  value: Members | undefined,
  names: readonly Name[],
): { [One in Name]?: string } {
  const found = names.flatMap((name) => {
    const text = textIn(value?.[name]);
    return text === undefined ? [] : [[name, text]];
  });
  return Object.fromEntries(found) as { [One in Name]?: string };
}

function textIn(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' && value.length <= 4096 ? value : undefined;
}

function membersIn(value: unknown): Members | undefined {
  return typeof value === 'object' && value !== null ? (value as Members) : undefined;
}
