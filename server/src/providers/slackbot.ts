/** Slack, by the app of whoever runs this server. https://api.slack.com/authentication/oauth-v2 */
import { Type } from 'typebox';
import type { Integration } from './provider.ts';

const config = Type.Object(
  {
    enabled: Type.Boolean({ description: "Whether users may connect Slack by the server's own app" }),
  },
  { additionalProperties: false, examples: [{ enabled: true }] },
);

export const slackbot: Integration<typeof config> & { channel: 'slack' } = {
  name: 'slackbot',
  wireName: '<brand>_slackbot',
  channel: 'slack',
  docs: 'https://api.slack.com/authentication/oauth-v2',
  config,
};
