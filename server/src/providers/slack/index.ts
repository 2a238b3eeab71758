/** Slack, through the project's own app. https://api.slack.com/apps */
import { Type } from 'typebox';
import { type Provider, type Rejection, secret } from '../provider.ts';
import type { HttpResult } from '../shared/transport.ts';
import { classifySlackResponse } from './classify.ts';
import { buildSlackMessage, type SlackRequest } from './message.ts';
import { slackDownstreamHost, slackRates } from './rates.ts';
import { slackReceipts } from './receipts.ts';
import { connectSlack } from './sender.ts';
import { chatTokens } from './tokens.ts';

const config = Type.Object(
  {
    app_id: Type.String({ pattern: '^[0-9A-Z]+$', description: 'The id of the app' }),
    client_id: Type.String({ pattern: '^[0-9]+\\.[0-9]+$', description: 'The client id of the app' }),
    client_secret: secret({ minLength: 32, maxLength: 32, description: 'The client secret of the app' }),
    signing_secret: secret({
      minLength: 32,
      maxLength: 32,
      description: 'The signing secret of the app. It verifies the events that Slack sends',
    }),
  },
  {
    additionalProperties: false,
    examples: [
      {
        app_id: 'A0123456789',
        client_id: '1234567890.1234567890',
        client_secret: '0123456789abcdef0123456789abcdef',
        signing_secret: '0123456789abcdef0123456789abcdef',
      },
    ],
  },
);

/** Slack. It has no `verify`, because Slack accepts requests only of installed apps. */
export const slack: Provider<'slack', typeof config, SlackRequest | Rejection, HttpResult> = {
  name: 'slack',
  title: 'Slack',
  channel: 'slack',
  docs: 'https://api.slack.com/apps',
  origins: {
    PROVIDER_SLACK_API_URL: 'https://slack.com/api',
    PROVIDER_SLACK_AUTHORIZE_URL: 'https://slack.com/oauth/v2/authorize',
  },
  overrideKey: 'slack',
  guide: () => import('./guide.ts'),
  config,
  tokens: chatTokens,
  build: buildSlackMessage,
  classify: classifySlackResponse,
  rates: slackRates,
  downstreamHost: slackDownstreamHost,
  connect: (_config, deps) => connectSlack(deps),
  receipts: slackReceipts,
};
