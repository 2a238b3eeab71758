/** Slack, by the app of whoever runs this server. https://api.slack.com/authentication/oauth-v2 */
import { Type } from 'typebox';
import type { Provider, Rejection } from '../provider.ts';
import type { HttpAnswer } from '../shared/transport.ts';
import { classifySlackAnswer } from '../slack/answer.ts';
import { buildSlackMessage, type SlackRequest } from '../slack/message.ts';
import { slackParty, slackRates } from '../slack/rates.ts';
import { connectSlack } from '../slack/sender.ts';
import { chatTokens } from '../slack/tokens.ts';

const config = Type.Object(
  {
    enabled: Type.Boolean({ description: "Whether users may connect Slack by the server's own app" }),
  },
  { additionalProperties: false, examples: [{ enabled: true }] },
);

export const slackbot: Provider<'slack', typeof config, SlackRequest | Rejection, HttpAnswer> = {
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
  classify: classifySlackAnswer,
  rates: slackRates,
  party: slackParty,
  connect: (_config, deps) => connectSlack(deps),
};
