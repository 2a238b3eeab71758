import { hash } from 'node:crypto';
import type { Rates, SlackMessage } from '../provider.ts';

/**
 * One message a second to each channel or webhook, as Slack asks. It lets short bursts pass and does not say
 * how short they are: we send four at once at most, and no more than four in any four seconds.
 */
export const slackRates: Rates<SlackMessage, unknown> = {
  destination: {
    key: ({ to }) => ('webhookUrl' in to ? to.webhookUrl : to.channelId),
    rates: [{ limit: 4, windowMs: 4000 }],
  },
};

/** The host of a webhook; else the workspace, which its access token stands for. */
export function slackDownstreamHost({ to }: SlackMessage): string {
  if ('webhookUrl' in to) return URL.parse(to.webhookUrl)?.host ?? '';
  return hash('sha256', to.accessToken, 'base64url').slice(0, 16);
}
