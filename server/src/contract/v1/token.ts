import { type Static, type TSchema, Type } from 'typebox';
import { tokenCollection } from '../../providers/index.ts';
import type { TokenCollection } from '../../providers/provider.ts';
import { deviceTokens } from '../../providers/shared/tokens.ts';
import { appId } from '../app-id.ts';
import { Id, nullable, oneOf, storedString, Timestamp } from '../common.ts';
import { StartedWebPush } from '../installation.ts';

/** The platforms of devices. */
const PLATFORMS = ['ios', 'android', 'safari'] as const;
export type Platform = (typeof PLATFORMS)[number];

/**
 * The tokens of each platform. No channel reads those of Safari: its own kind of subscription has been
 * replaced by web push.
 */
export const PLATFORM_TOKENS: Record<Platform, TokenCollection> = {
  ios: tokenCollection('apns'),
  android: tokenCollection('fcm'),
  safari: deviceTokens('safari', 'SafariToken', {}) as TokenCollection,
};

const exampleDeviceToken = 'x4doKe98yEZ21Kum2Qq39M3b8jkhonuIupobyFnL0wJMSWAZ8zoTp2dyHgV';
const deviceToken = storedString({
  minLength: 1,
  maxLength: 255,
  description: 'The token of the device, as the platform issued it to the app.',
  examples: [exampleDeviceToken],
});
const platform = oneOf(PLATFORMS, {
  description: 'Devices of `safari` are stored and listed, but no channel delivers to them.',
});
const bundleId = appId("The app's bundle identifier, if it differs from the integration's.");

const example = {
  device_token: exampleDeviceToken,
  platform: 'ios',
  app_bundle_id: 'com.example.app',
};

export const RegisterDevice = Type.Object(
  {
    push_subscription: Type.Object(
      {
        device_token: deviceToken,
        platform,
        app_bundle_id: Type.Optional(nullable(Type.Unsafe<string>({ ...bundleId, maxLength: 155 }))),
      },
      { title: 'PushSubscriptionInput', additionalProperties: false },
    ),
  },
  {
    title: 'PushSubscriptionRequest',
    additionalProperties: false,
    examples: [{ push_subscription: example }],
  },
);
export type RegisterDevice = Static<typeof RegisterDevice>['push_subscription'];

export const RegisteredDevice = Type.Object(
  {
    push_subscription: Type.Object(
      { id: Id, device_token: Type.String(), platform, app_bundle_id: nullable(Type.String()) },
      { title: 'PushSubscription' },
    ),
  },
  { title: 'PushSubscriptionResponse' },
);

const Device = Type.Object(
  {
    id: Id,
    user_id: Id,
    device_token: Type.String(),
    platform,
    created_at: Timestamp,
    discarded_at: nullable(Timestamp),
  },
  { title: 'ListedPushSubscription' },
);
export type Device = Static<typeof Device>;

export const DevicePage = Type.Object(
  {
    per_page: Type.Integer(),
    current_page: Type.Integer(),
    push_subscriptions: Type.Array(Device),
  },
  { title: 'PushSubscriptionPage' },
);

/** The path of a device. */
export const DeviceInPath = Type.Object({
  device_token: Type.String({ minLength: 1, description: 'The token of the device.' }),
});

const inbox = tokenCollection('inbox');
const webPush = tokenCollection('web_push');

const only = <Name extends string, Schema extends TSchema>(name: Name, schema: Schema, title: string) =>
  Type.Object({ [name]: schema } as Record<Name, Schema>, { title });

export const SaveInboxToken = only('inbox', inbox.save, 'LegacyInboxTokenInput');
export const SavedInboxToken = only('in_app/inbox', inbox.saved, 'LegacyInboxToken');
export const SaveWebPushToken = only('web_push', webPush.save, 'LegacyWebPushTokenInput');
export const LegacyWebPushToken = only('web_push', webPush.token, 'LegacyWebPushToken');
export const LegacyWebPushTokens = only('web_push', Type.Array(webPush.token), 'LegacyWebPushTokens');

/** The body and response with a token of a phone. */
export function phoneTokens(provider: 'apns' | 'fcm') {
  const { save, saved } = tokenCollection(provider);
  return {
    save: only(provider, save, `Legacy_${provider}_TokenInput`),
    saved: only(provider, saved, `Legacy_${provider}_Token`),
  };
}

/** A browser, or Safari's own kind of subscription. */
export const SaveWebPushSubscription = Type.Object(
  {
    web_push_subscription: Type.Object(
      {
        data: Type.Union([
          webPush.save,
          Type.Object(
            { endpoint: deviceToken, keys: Type.Optional(Type.Object({})), platform: Type.Literal('safari') },
            { title: 'SafariSubscription', additionalProperties: false },
          ),
        ]),
      },
      { title: 'WebPushSubscriptionInput', additionalProperties: false },
    ),
  },
  { title: 'WebPushSubscriptionRequest', additionalProperties: false },
);

export const SavedWebPushSubscription = only(
  'web_push_subscription',
  Type.Object({ id: Id }, { title: 'WebPushSubscription' }),
  'WebPushSubscriptionResponse',
);

export const LegacyWebPushStart = only('web_push', StartedWebPush, 'LegacyWebPushStart');
