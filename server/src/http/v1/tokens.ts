import { Type } from 'typebox';
import { NoContent } from '../../contract/common.ts';
import { shownConfig } from '../../contract/integration.ts';
import { problemsWithin } from '../../contract/problems.ts';
import { TokenId } from '../../contract/token.ts';
import { UserInPath } from '../../contract/user.ts';
import { NumberedPageQuery } from '../../contract/v1/pages.ts';
import {
  DeviceInPath,
  DevicePage,
  LegacyWebPushStart,
  LegacyWebPushToken,
  LegacyWebPushTokens,
  phoneTokens,
  RegisterDevice,
  RegisteredDevice,
  SavedInboxToken,
  SavedWebPushSubscription,
  SaveInboxToken,
  SaveWebPushSubscription,
  SaveWebPushToken,
} from '../../contract/v1/token.ts';
import { privateHostProblems } from '../../domain/ground/requests/private-hosts.ts';
import { inboxConfigsOf } from '../../domain/people/installations/inbox.ts';
import { startWebPush } from '../../domain/people/installations/web-push.ts';
import { listDevices, registerDevice, unregisterDevice } from '../../domain/people/tokens/devices.ts';
import { discardToken } from '../../domain/people/tokens/discard.ts';
import { MAX_ACTIVE_TOKENS } from '../../domain/people/tokens/discard-oldest.ts';
import { findActiveTokens, getToken, listTokens, tokenJson } from '../../domain/people/tokens/list.ts';
import { saveToken } from '../../domain/people/tokens/save.ts';
import { findUser } from '../../domain/people/users/find.ts';
import { getUser } from '../../domain/people/users/get.ts';
import { ClientError } from '../../errors.ts';
import { NEWEST } from '../../lib/cursor.ts';
import { memberOf } from '../../lib/members.ts';
import { integrations, tokenCollection } from '../../providers/index.ts';
import type { TokenMembers } from '../../providers/provider.ts';
import type { CallContext } from '../context.ts';
import { rawJson } from '../reply.ts';
import { type App, projectRoute, userRoute } from '../route.ts';
import { found, notFound } from './found.ts';

const tags: [string] = ['Channel tokens'];
const webPush = tokenCollection('web_push');
const { hosts = [] } = webPush;
const LegacyInboxConfig = Type.Object(
  { inbox: shownConfig(integrations.inbox) },
  { title: 'LegacyInboxConfig' },
);

/** Registers the tokens of devices, browsers and inboxes. */
export function tokenRoutes(app: App): void {
  deviceRoutes(app);
  inboxRoutes(app);
  webPushRoutes(app);
  phoneRoutes(app, 'apns');
  phoneRoutes(app, 'fcm');
}

function deviceRoutes(app: App): void {
  const url = '/push_subscriptions';

  userRoute(app, {
    method: 'POST',
    url,
    operationId: 'registerDeviceV1',
    summary: 'Register a device for push notifications',
    description:
      'Notifications reach the device if the project has an integration for its platform. A device of ' +
      'another user moves to this user.',
    tags,
    body: RegisterDevice,
    reply: { 201: RegisteredDevice },
    async handler({ owner, body: { push_subscription: device }, context }) {
      const id = found(await registerDevice(context, owner, device), 'device');
      const { device_token, platform, app_bundle_id = null } = device;
      return { push_subscription: { id, device_token, platform, app_bundle_id } };
    },
  });

  userRoute(app, {
    method: 'GET',
    url,
    operationId: 'listDevicesV1',
    summary: 'List the devices of the user, newest first',
    description: 'Returns a page of the devices that are registered.',
    tags,
    query: NumberedPageQuery,
    reply: { 200: DevicePage },
    handler: ({ user, query, context }) => devicePage(context, user.id, query),
  });

  userRoute(app, {
    method: 'DELETE',
    url: `${url}/:device_token`,
    operationId: 'unregisterDeviceV1',
    summary: 'Unregister a device',
    description: 'Nothing is delivered to the device from then on.',
    tags,
    params: DeviceInPath,
    reply: { 204: NoContent },
    async handler({ owner, params, context }) {
      if (!(await unregisterDevice(context, owner, params.device_token))) throw notFound('device');
    },
  });

  projectRoute(app, {
    method: 'GET',
    url: '/users/:user_id/push_subscriptions',
    operationId: 'listUserDevicesV1',
    summary: 'List the devices of a user, newest first',
    description: 'Returns a page of the devices that are registered.',
    tags,
    params: UserInPath,
    query: NumberedPageQuery,
    reply: { 200: DevicePage },
    async handler({ project, params, query, context }) {
      const userId = found(await findUser(context.db, project.id, params.user_id), 'user');
      return devicePage(context, userId, query);
    },
  });
}

async function devicePage(
  context: CallContext,
  userId: string,
  { page = 1, per_page: perPage = 20 }: { page?: number; per_page?: number },
) {
  const devices = await listDevices(context, userId);
  const start = (page - 1) * perPage;
  return {
    per_page: perPage,
    current_page: page,
    push_subscriptions: devices.slice(start, start + perPage),
  };
}

function inboxRoutes(app: App): void {
  userRoute(app, {
    method: 'POST',
    url: '/channels/in_app/inbox/tokens',
    operationId: 'saveInboxTokenV1',
    summary: 'Save the token of a realtime connection',
    description: 'The token authenticates the WebSocket of the inbox. Saving it again updates its record.',
    tags,
    body: SaveInboxToken,
    reply: { 201: SavedInboxToken },
    async handler({ owner, body, context }) {
      const saved = await saveToken(context, tokenCollection('inbox'), owner, body.inbox as TokenMembers);
      return rawJson(JSON.stringify({ 'in_app/inbox': saved }));
    },
  });

  userRoute(app, {
    method: 'POST',
    url: '/integrations/inbox/installations/start',
    operationId: 'startInboxInstallationV1',
    summary: 'Get the inbox config of the user',
    description: 'Returns the config that the user saved, or else that of the project.',
    tags,
    reply: { 200: LegacyInboxConfig },
    async handler({ user, project, context }) {
      const configOf = await inboxConfigsOf(context, { projectId: project.id, userIds: [user.id] });
      const inbox = configOf(user.id);
      return rawJson(JSON.stringify({ inbox }));
    },
  });
}

function webPushRoutes(app: App): void {
  const url = '/channels/web_push/tokens';

  userRoute(app, {
    method: 'POST',
    url,
    operationId: 'saveWebPushTokenV1',
    summary: "Save a browser's subscription",
    description:
      'Notifications reach this browser from then on. A browser of another user moves to this user.',
    tags,
    body: SaveWebPushToken,
    alsoWrong: ({ body }) => hostProblems(app.context, 'web_push', memberOf(body, 'web_push')),
    reply: { 201: LegacyWebPushToken },
    async handler({ owner, user, body, context }) {
      const id = await saveBrowser(context, owner, 'web_push', body.web_push);
      return rawJson(`{"web_push":${await webPushJson(context, user.id, id)}}`);
    },
  });

  userRoute(app, {
    method: 'GET',
    url,
    operationId: 'listWebPushTokensV1',
    summary: 'List the browsers of the user, newest first',
    description: 'Returns all active subscriptions, at most 100.',
    tags,
    reply: { 200: LegacyWebPushTokens },
    async handler({ user, context }) {
      const newest = { direction: 'older', id: NEWEST, limit: MAX_ACTIVE_TOKENS } as const;
      const rows = await listTokens(context.db, user.id, webPush.collection, newest);
      const texts = rows.flatMap((row) => tokenJson(context.sealer, row) ?? []);
      return rawJson(`{"web_push":[${texts.join(',')}]}`);
    },
  });

  userRoute(app, {
    method: 'GET',
    url: `${url}/:token_id`,
    operationId: 'getWebPushTokenV1',
    summary: "Get a browser's subscription",
    description: 'Returns an active or a discarded subscription of the user.',
    tags,
    params: TokenId,
    reply: { 200: LegacyWebPushToken },
    handler: async ({ user, params, context }) =>
      rawJson(`{"web_push":${await webPushJson(context, user.id, params.token_id)}}`),
  });

  userRoute(app, {
    method: 'DELETE',
    url: `${url}/:token_id`,
    operationId: 'discardWebPushTokenV1',
    summary: "Discard a browser's subscription",
    description: 'Nothing is delivered to the browser from then on.',
    tags,
    params: TokenId,
    reply: { 204: NoContent },
    async handler({ owner, params, context }) {
      const token = { ...owner, id: params.token_id.toLowerCase() };
      if ((await discardToken(context, webPush.collection, token)) === undefined)
        throw new ClientError('not_found');
    },
  });

  userRoute(app, {
    method: 'POST',
    url: '/web_push_subscriptions',
    operationId: 'saveWebPushSubscriptionV1',
    summary: 'Save the subscription of a browser or of Safari',
    description:
      'Does the same as `POST /channels/web_push/tokens`. Subscriptions with the platform `safari` are ' +
      'stored and listed as devices.',
    tags,
    body: SaveWebPushSubscription,
    alsoWrong: ({ body }) =>
      hostProblems(
        app.context,
        'web_push_subscription.data',
        memberOf(memberOf(body, 'web_push_subscription'), 'data'),
      ),
    reply: { 201: SavedWebPushSubscription },
    async handler({ owner, body, context }) {
      const { data } = body.web_push_subscription;
      const id =
        'platform' in data
          ? await registerDevice(context, owner, { device_token: String(data.endpoint), platform: 'safari' })
          : await saveBrowser(context, owner, 'web_push_subscription.data', data);
      return { web_push_subscription: { id: found(id, 'device') } };
    },
  });

  userRoute(app, {
    method: 'POST',
    url: '/integrations/web_push/installations/start',
    operationId: 'startWebPushInstallationV1',
    summary: 'Get the key with which a browser subscribes',
    description: 'Creates the VAPID keys of the project if it has none.',
    tags,
    reply: { 200: LegacyWebPushStart },
    secretReply: true,
    handler: async ({ project, user, credential, context }) => ({
      web_push: await startWebPush(context, project.id, {
        claims: await claimsOf(context, project, user.id),
        ...credential,
      }),
    }),
  });
}

/** The claims of a User JWT of the user. */
export async function claimsOf(
  { db }: CallContext,
  project: { id: string; apiKey: string },
  userId: string,
): Promise<Record<string, string>> {
  const { external_id: externalId, email } = (await getUser(db, project.id, userId)) ?? {};
  return {
    api_key: project.apiKey,
    ...(externalId ? { user_external_id: externalId } : {}),
    ...(email ? { user_email: email } : {}),
  };
}

/** Saves a browser. Returns the id of its record. */
async function saveBrowser(
  context: CallContext,
  owner: { projectId: string; userId: string },
  path: string,
  given: unknown,
): Promise<string> {
  const problems = await hostProblems(context, path, given);
  if (problems.length > 0) throw new ClientError('validation_failed', problems);
  const saved = await saveToken(context, webPush, owner, given as TokenMembers);
  const { db } = context;
  const [token] = await findActiveTokens(db, owner.userId, [webPush.collection], String(saved.endpoint));
  return found(token, 'device').id;
}

async function hostProblems(context: Pick<CallContext, 'egress'>, path: string, given: unknown) {
  return problemsWithin(path, await privateHostProblems(context, hosts, given));
}

async function webPushJson({ db, sealer }: CallContext, userId: string, id: string): Promise<string> {
  const row = await getToken(db, userId, webPush.collection, id);
  const json = row && tokenJson(sealer, row);
  if (!json) throw new ClientError('not_found');
  return json;
}

function phoneRoutes(app: App, provider: 'apns' | 'fcm'): void {
  const { save, saved } = phoneTokens(provider);
  const name = provider === 'apns' ? 'Apns' : 'Fcm';
  const url = `/channels/mobile_push/${provider}/tokens`;

  userRoute(app, {
    method: 'POST',
    url,
    operationId: `save${name}TokenV1`,
    summary: 'Save the token of a phone',
    description: 'Saving a token again updates its record. A token of another user moves to this user.',
    tags,
    body: save,
    reply: { 201: saved },
    async handler({ owner, body, context }) {
      const given = (body as Record<string, TokenMembers>)[provider] ?? {};
      return rawJson(
        JSON.stringify({ [provider]: await saveToken(context, tokenCollection(provider), owner, given) }),
      );
    },
  });

  userRoute(app, {
    method: 'DELETE',
    url: `${url}/:device_token`,
    operationId: `discard${name}TokenV1`,
    summary: 'Discard the token of a phone',
    description: 'Nothing is delivered to the phone from then on.',
    tags,
    params: DeviceInPath,
    reply: { 204: NoContent },
    async handler({ owner, params, context }) {
      const platforms = [provider === 'apns' ? ('ios' as const) : ('android' as const)];
      if (!(await unregisterDevice(context, owner, params.device_token, platforms))) throw notFound('device');
    },
  });
}
