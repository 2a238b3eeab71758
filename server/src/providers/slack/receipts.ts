/** What Slack reports of an app. https://docs.slack.dev/apis/events-api */

import type { GoneChat, ReceiptReader } from '../provider.ts';
import { hasSignature, headerText, isRecent, membersOf, nonEmptyText, objectOf } from '../shared/inbound.ts';

// Slack signs a retry again.
const TOLERANCE_MS = 5 * 60_000;

/**
 * Events: an app that was taken out of a workspace, a channel that was deleted. Signed with the app's signing
 * secret.
 */
export const slackReceipts: ReceiptReader<{ signing_secret?: string | undefined }> = {
  isSigned({ headers, body, nowMs }, { signing_secret: key }) {
    const time = headerText(headers['x-slack-request-timestamp']);
    const signature = /^v0=([0-9a-f]{64})$/.exec(headerText(headers['x-slack-signature']))?.[1];
    if (key === undefined || signature === undefined || !isRecent(time, nowMs, TOLERANCE_MS)) return false;
    return hasSignature(Buffer.concat([Buffer.from(`v0:${time}:`), body]), key, signature);
  },
  read({ body, nowMs }) {
    const said = objectOf(body.toString());
    if (said?.type === 'url_verification') {
      const challenge = nonEmptyText(said.challenge);
      return challenge === undefined ? undefined : { challenge };
    }
    if (typeof said?.type !== 'string') return undefined;
    if (said.type !== 'event_callback') return {}; // app_rate_limited: Slack leaves events out
    return { gone: goneIn(said, nowMs) };
  },
};

function goneIn(said: Readonly<Record<string, unknown>>, nowMs: number): GoneChat[] {
  const event = membersOf(said.event);
  const app = nonEmptyText(said.api_app_id);
  if (app === undefined) return [];
  // To the second: what was saved within it was saved before, more likely than since.
  const endsMs = typeof said.event_time === 'number' ? said.event_time * 1000 + 999 : nowMs;
  const goneAt = new Date(Math.min(endsMs, nowMs));
  const code = String(event.type);
  const reason = `Slack reports ${code}`;
  const gone = (channel: { channelId?: string }) =>
    placesOf(said).map((place) => ({ installationId: `${app}-${place}`, ...channel, code, reason, goneAt }));
  switch (code) {
    case 'app_uninstalled':
      return gone({});
    case 'tokens_revoked': {
      const { bot } = membersOf(event.tokens);
      return Array.isArray(bot) && bot.length > 0 ? gone({}) : []; // people's own tokens are not used for posting
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
 * The workspace, and where the app is installed in all of an organisation, that: installations are named by
 * either.
 */
function placesOf(said: Readonly<Record<string, unknown>>): string[] {
  const { authorizations } = said;
  const first = membersOf(Array.isArray(authorizations) ? authorizations[0] : undefined);
  const whole = said.is_enterprise_install === true || first.is_enterprise_install === true;
  const enterprise = nonEmptyText(said.enterprise_id) ?? nonEmptyText(first.enterprise_id);
  const team = nonEmptyText(said.team_id);
  return [...new Set([team, whole ? enterprise : undefined].filter((place) => place !== undefined))];
}
