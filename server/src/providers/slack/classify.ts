/**
 * Classifies Slack's responses to a message.
 * https://docs.slack.dev/reference/methods/chat.postMessage#errors
 */

import type { SendOutcome } from '../provider.ts';
import {
  httpOutcome,
  type ParsedResponse,
  rejected,
  rejectedForEither,
  retry,
} from '../shared/http-outcome.ts';
import type { HttpResult } from '../shared/transport.ts';

/** Returns the outcome of a response. The API responds with JSON, an incoming webhook with one word. */
export function classifySlackResponse(response: HttpResult): SendOutcome {
  return httpOutcome(response, 'Slack', meaning);
}

// Error codes of the API and of incoming webhooks, which differ.
const INSTALLATION_GONE = new Set([
  'account_inactive',
  'token_revoked',
  'invalid_auth',
  'invalid_refresh_token',
  'user_removed_from_team',
]);
const TOKEN_GONE = new Set([
  'channel_not_found',
  'is_archived',
  'not_in_channel',
  'no_service',
  'no_service_id',
  'no_team',
  'no_active_hooks',
  'invalid_token',
  'team_disabled',
  'channel_is_archived',
  'user_not_found',
]);
/** Caused by the scopes that the app requests, or by a setting of one workspace. */
const EITHER = new Set(['missing_scope', 'not_allowed_token_type', 'not_authed']);
/** Rules of one workspace. Other workspaces are not affected, so the integration continues. */
const FORBIDDEN = new Set([
  'ekm_access_denied',
  'org_login_required',
  'team_access_not_granted',
  'restricted_action',
  'action_prohibited',
  'posting_to_general_channel_denied',
]);
const PASSING = new Set([
  'ratelimited',
  'rate_limited',
  'message_limit_exceeded',
  'service_unavailable',
  'request_timeout',
  'team_added_to_org',
  'rollup_error',
]);
/** Slack: "It is possible that some aspect of the operation succeeded." */
const AMBIGUOUS = new Set(['fatal_error', 'internal_error']);
/** The engine refreshes the installation's tokens and retries. */
const TOKEN_EXPIRED = 'token_expired';

function meaning(response: ParsedResponse): SendOutcome | undefined {
  const { ok, ts, error } = response.json as { ok?: unknown; ts?: unknown; error?: unknown };
  if (response.status === 200 && ok === true)
    return typeof ts === 'string' ? { kind: 'sent', providerId: ts } : { kind: 'sent' };
  if (response.status === 200 && response.text.trim() === 'ok') return { kind: 'sent' };
  const code = errorCodeOf(typeof error === 'string' ? error : response.text);
  if (code === undefined) return undefined;
  const gone = { kind: 'token_gone', reason: response.reason, code } as const;
  if (response.status === 429 || PASSING.has(code)) return retry(response, { code });
  if (AMBIGUOUS.has(code)) return retry(response, { code, ambiguous: true });
  if (code === TOKEN_EXPIRED) return retry(response, { code });
  if (INSTALLATION_GONE.has(code)) return { ...gone, scope: 'installation' };
  if (TOKEN_GONE.has(code)) return { ...gone, scope: 'token' };
  if (EITHER.has(code)) return rejectedForEither(response, code);
  if (FORBIDDEN.has(code)) return rejected('message', response, code);
  if (response.status >= 500) return undefined;
  // An error that is not in the lists above concerns the message.
  return ok === false || response.status >= 400 ? rejected('message', response, code) : undefined;
}

/** Returns Slack's error code, if the text is one. */
function errorCodeOf(text: string): string | undefined {
  return /^\s*([a-z][a-z_]{1,99})\s*$/.exec(text)?.[1];
}
