/** Slack, through the app of the server's operator. https://api.slack.com/authentication/oauth-v2 */
import { Type } from 'typebox';
import type { Provider, Rejection } from '../provider.ts';
import type { HttpResult } from '../shared/transport.ts';
import { classifySlackResponse } from '../slack/classify.ts';
import { buildSlackMessage, type SlackRequest } from '../slack/message.ts';
import { slackDownstreamHost, slackRates } from '../slack/rates.ts';
import { slackReceipts } from '../slack/receipts.ts';
import { connectSlack } from '../slack/sender.ts';
import { chatTokens } from '../slack/tokens.ts';

const config = Type.Object(
  {
    enabled: Type.Boolean({ description: "Whether users may connect Slack through the server's own app" }),
  },
  { additionalProperties: false, examples: [{ enabled: true }] },
);

export const slackbot: Provider<'slack', typeof config, SlackRequest | Rejection, HttpResult> = {
  name: 'slackbot',
  title: 'The server’s own Slack app',
  wireName: '<brand>_slackbot',
  channel: 'slack',
  docs: 'https://api.slack.com/authentication/oauth-v2',
  overrideKey: 'slack',
  guide: () => import('../slack/guide.ts'),
  config,
  tokens: { ...chatTokens, collection: 'slack/service_slackbot', path: 'slack/<brand>_slackbot' },
  build: buildSlackMessage,
  classify: classifySlackResponse,
  rates: slackRates,
  downstreamHost: slackDownstreamHost,
  connect: (_config, deps) => connectSlack(deps),
  serverReceipts: {
    summary: 'Receive reports of Slack about <brand>_slackbot, the app of this server',
    description:
      'Called by Slack: see https://api.slack.com/authentication/oauth-v2. The signature is verified with ' +
      'the setting `SLACKBOT_SIGNING_SECRET` of the server. When the app is removed from a workspace, or a ' +
      'channel is deleted, its tokens in all projects are discarded.',
    reader: slackReceipts,
    config: ({ SLACKBOT_SIGNING_SECRET }) => ({ signing_secret: SLACKBOT_SIGNING_SECRET }),
  },
};
