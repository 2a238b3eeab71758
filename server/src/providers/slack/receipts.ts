/** Receives events of a Slack app. https://docs.slack.dev/apis/events-api */

import type { GoneChat, ReceiptReader } from '../provider.ts';
import {
  dateOfSeconds,
  hasSignature,
  headerText,
  isRecent,
  membersOf,
  nonEmptyText,
  objectOf,
} from '../shared/inbound.ts';

// Slack signs each retry with a new timestamp.
const TOLERANCE_MS = 5 * 60_000;

/**
 * Events about an app that was removed from a workspace, or a channel that was deleted. They are signed with
 * the app's signing secret.
 */
export const slackReceipts: ReceiptReader<{ signing_secret?: string | undefined }> = {
  isSigned({ headers, body, nowMs }, { signing_secret: key }) {
    const time = headerText(headers['x-slack-request-timestamp']);
    const signature = /^v0=([0-9a-f]{64})$/.exec(headerText(headers['x-slack-signature']))?.[1];
    if (key === undefined || signature === undefined || !isRecent(time, nowMs, TOLERANCE_MS)) return false;
    return hasSignature(Buffer.concat([Buffer.from(`v0:${time}:`), body]), key, signature);
  },
  read({ body, nowMs }) {
    const payload = objectOf(body.toString());
    if (payload?.type === 'url_verification') {
      const challenge = nonEmptyText(payload.challenge);
      return challenge === undefined ? undefined : { challenge };
    }
    if (typeof payload?.type !== 'string') return undefined;
    if (payload.type !== 'event_callback') return {}; // app_rate_limited: Slack drops events
    return { gone: goneIn(payload, nowMs) };
  },
};

function goneIn(payload: Readonly<Record<string, unknown>>, nowMs: number): GoneChat[] {
  const event = membersOf(payload.event);
  const app = nonEmptyText(payload.api_app_id);
  if (app === undefined) return [];
  // Event times are in whole seconds. A token saved within that second was probably saved before the event.
  const endsMs = dateOfSeconds(payload.event_time, nowMs).getTime() + 999;
  const goneAt = new Date(Math.min(endsMs, nowMs));
  const code = String(event.type);
  const reason = `Slack reports ${code}`;
  const gone = (channel: { channelId?: string }) =>
    placesOf(payload).map((place) => ({
      installationId: `${app}-${place}`,
      ...channel,
      code,
      reason,
      goneAt,
    }));
  switch (code) {
    case 'app_uninstalled':
      return gone({});
    case 'tokens_revoked': {
      const { bot } = membersOf(event.tokens);
      return Array.isArray(bot) && bot.length > 0 ? gone({}) : []; // user tokens are not used
    }
    case 'channel_archive':
    case 'channel_deleted':
    case 'group_archive':
    case 'group_deleted': {
      const channelId = nonEmptyText(event.channel);
      return channelId === undefined ? [] : gone({ channelId });
    }
    default:
      return [];
  }
}

/**
 * Returns the ids that installations may have: the workspace, and the organization if the app is installed in
 * all of it.
 */
function placesOf(payload: Readonly<Record<string, unknown>>): string[] {
  const { authorizations } = payload;
  const first = membersOf(Array.isArray(authorizations) ? authorizations[0] : undefined);
  const whole = payload.is_enterprise_install === true || first.is_enterprise_install === true;
  const enterprise = nonEmptyText(payload.enterprise_id) ?? nonEmptyText(first.enterprise_id);
  const team = nonEmptyText(payload.team_id);
  return [...new Set([team, whole ? enterprise : undefined].filter((place) => place !== undefined))];
}
