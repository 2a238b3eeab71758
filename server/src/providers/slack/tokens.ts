import { type Static, Type } from 'typebox';
import { given, storedString } from '../../contract/common.ts';
import { isId } from '../../lib/ids.ts';
import { urlMember } from '../../lib/named-host.ts';
import type { TargetedTokens, TokenTarget } from '../provider.ts';
import { part, serverAddress, tokenSchemas } from '../shared/tokens.ts';

const slackId = (description: string, example: string) =>
  storedString({ minLength: 1, maxLength: 255, description, examples: [example] });

const chat = {
  oauth: Type.Optional(
    part('ChatTokenOauth', {
      channel_id: slackId('The channel or user to post to.', 'C024BE91L'),
      installation_id: slackId(
        'The installation of the Slack app: `<app_id>-<team_id>`.',
        'A012ABCD0A0-T9TK3CUKW',
      ),
      scope: Type.Optional(
        storedString({
          maxLength: 4096,
          description: 'The scopes of the installation.',
          examples: ['chat:write'],
        }),
      ),
    }),
  ),
  webhook: Type.Optional(
    part('ChatTokenWebhook', {
      url: serverAddress(
        "The URL of the incoming webhook, from Slack's response to the installation.",
        'https://hooks.slack.com/services/T9TK3CUKW/B0LJ2KD5H/x1y2z3',
      ),
    }),
  ),
};
const ChatTokenId = Type.String({
  description: '`<installation_id>-<channel_id>` for a token with `oauth`.',
  examples: ['A012ABCD0A0-T9TK3CUKW-C024BE91L'],
});
const schemas = tokenSchemas(
  'ChatToken',
  { save: chat, saved: chat, id: ChatTokenId },
  { anyOf: [given('oauth'), given('webhook')], 'x-problem': 'must have oauth or webhook' },
);
type ChatToken = Static<typeof schemas.save>;

/** The tokens of a Slack app: channels and users of the workspaces that installed it. */
export const chatTokens: TargetedTokens<ChatToken> = {
  collection: 'slack',
  kind: 'shared',
  ...schemas,
  hosts: [urlMember('webhook.url')],
  hasPublicIds: true,
  savedAgain:
    'A token is identified by the channel in `oauth`, or else by the URL in `webhook`; several users can ' +
    'have the same token. Saving it again updates its record, or creates a new one if it was discarded. ' +
    'With `oauth`, the id of the active record consists of the installation and the channel.',
  identity({ oauth, webhook }) {
    if (oauth === undefined) return { text: webhook?.url ?? '' };
    const id = `${oauth.installation_id}-${oauth.channel_id}`;
    // Slack's ids never look like ours. One that does is stored under a generated id, so that no id can mean
    // two tokens.
    return isId(id) ? { text: `oauth:${id}` } : { publicId: id };
  },
  target,
};

/** Returns the channel, by the installed app or by the webhook. */
function target({ oauth, webhook }: ChatToken): TokenTarget {
  if (oauth === undefined) {
    const webhookUrl = webhook?.url ?? '';
    return { address: { to: { webhookUrl } }, isFixed: true, secrets: [webhookUrl] };
  }
  const { installation_id: id, channel_id: channelId } = oauth;
  return {
    installation: { id, withAccess: (accessToken) => ({ to: { channelId, accessToken } }) },
    appId: id.slice(0, id.indexOf('-')),
    isFixed: true,
    secrets: [],
  };
}
