import { hash } from 'node:crypto';
import type { Rates, SlackMessage } from '../provider.ts';

/**
 * Slack permits one message per second and channel or webhook, with short bursts of unspecified length. We
 * send at most four at once, and at most four in any four seconds.
 */
export const slackRates: Rates<SlackMessage, unknown> = {
  destination: {
    key: ({ to }) => ('webhookUrl' in to ? to.webhookUrl : to.channelId),
    rates: [{ limit: 4, windowMs: 4000 }],
  },
};

/** Returns the host of a webhook, else a hash of the access token, which stands for the workspace. */
export function slackDownstreamHost({ to }: SlackMessage): string {
  if ('webhookUrl' in to) return URL.parse(to.webhookUrl)?.host ?? '';
  return hash('sha256', to.accessToken, 'base64url').slice(0, 16);
}
