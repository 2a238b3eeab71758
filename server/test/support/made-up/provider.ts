import { type TObject, Type } from 'typebox';
import {
  type MessageOf,
  type Provider,
  secret,
  type TargetedTokens,
} from '../../../src/providers/provider.ts';
import type { Guide } from '../../../src/providers/shared/guide.ts';
import { httpOutcome } from '../../../src/providers/shared/http-outcome.ts';
import { createHttpSender } from '../../../src/providers/shared/http-sender.ts';
import {
  deviceToken,
  deviceTokens,
  serverAddress,
  tokenSchemas,
} from '../../../src/providers/shared/tokens.ts';
import type { HttpRequest, HttpResult, OriginSetting } from '../../../src/providers/shared/transport.ts';

// Providers of a vendor that does not exist, as the folder of a new provider exports them. See hook.ts.

const config = Type.Object(
  { api_key: secret({ minLength: 1, description: 'The key of the account' }) },
  { additionalProperties: false, examples: [{ api_key: 'secret' }] },
);
type MadeUp<C extends keyof MessageOf> = Provider<C, typeof config, HttpRequest, HttpResult>;

const guide: Guide = { limits: [], responses: [['200', { status: 200, headers: {}, text: '' }]] };

/** A provider that posts `addressOf(message)` to the vendor. */
function madeUp<C extends keyof MessageOf>(
  channel: C,
  addressOf: (message: MessageOf[C]) => unknown,
  tokens?: TargetedTokens,
): MadeUp<C> {
  const name = `made_up_${channel}`;
  const setting: OriginSetting = `PROVIDER_MADE_UP_${channel.toUpperCase()}_BASE_URL`;
  const origin = 'https://api.made-up.example';
  const build = (message: MessageOf[C]): HttpRequest => ({
    method: 'POST',
    path: `/${channel}`,
    body: JSON.stringify({ to: addressOf(message), override: message.override }),
  });
  const classify = (result: HttpResult) => httpOutcome(result, 'Made-up', () => undefined);
  return {
    name,
    title: `Made-up ${channel}`,
    channel,
    docs: 'https://docs.made-up.example',
    config,
    origins: { [setting]: origin },
    overrideKey: name,
    guide: async () => ({ guide }),
    ...(tokens === undefined ? {} : { tokens }),
    build,
    classify,
    connect: (_config, { transport }) =>
      createHttpSender({
        concurrency: 10,
        secrets: [],
        build,
        exchange: (request) => transport.vendor(setting, origin).request(request),
        classify,
      }),
  };
}

/** A token collection whose tokens are addresses. */
function addressTokens(channel: string, name: string, target: (url: string) => object): TargetedTokens {
  const members = { url: serverAddress('The address.', 'https://made-up.example/1') };
  const { save, ...others } = tokenSchemas(name, { save: members, saved: members });
  return {
    collection: `made_up/${channel}`,
    kind: 'shared',
    save: save as TObject,
    ...others,
    identity: ({ url }) => ({ text: String(url) }),
    target: ({ url }) => ({ address: { ...target(String(url)) }, secrets: [String(url)] }),
  };
}

export const email = madeUp('email', ({ to }) => to.email);
export const sms = madeUp('sms', ({ to }) => to);
export const mobilePush = madeUp(
  'mobile_push',
  ({ token }) => token.deviceToken,
  deviceTokens('made_up_mobile_push', 'MadeUpDevice', deviceToken(1, 'The device.', 'abc')),
);
export const webPush = madeUp(
  'web_push',
  ({ endpoint }) => endpoint,
  addressTokens('web_push', 'MadeUpBrowser', (endpoint) => ({ endpoint, keys: { auth: '', p256dh: '' } })),
);
export const slack = madeUp(
  'slack',
  ({ to }) => ('webhookUrl' in to ? to.webhookUrl : to.channelId),
  addressTokens('slack', 'MadeUpChat', (webhookUrl) => ({ to: { webhookUrl } })),
);
export const teams = madeUp(
  'teams',
  ({ webhookUrl }) => webhookUrl,
  addressTokens('teams', 'MadeUpTeam', (webhookUrl) => ({ webhookUrl })),
);
