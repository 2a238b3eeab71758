import {
  FinishInstallation,
  SlackInstallation,
  StartedInstallation,
  StartedWebPush,
  StartInstallation,
} from '../../contract/installation.ts';
import { shownConfig } from '../../contract/integration.ts';
import { privateHostProblems, rejectPrivateHosts } from '../../domain/ground/requests/private-hosts.ts';
import type { SlackProvider } from '../../domain/people/installations/app.ts';
import { finishInstallation } from '../../domain/people/installations/finish.ts';
import { inboxConfigsOf, saveInboxInstallation } from '../../domain/people/installations/inbox.ts';
import { saveStated } from '../../domain/people/installations/save.ts';
import { requireApp, startInstallation } from '../../domain/people/installations/start.ts';
import { startWebPush } from '../../domain/people/installations/web-push.ts';
import { saveToken } from '../../domain/people/tokens/save.ts';
import { decodeJwt } from '../../lib/jwt.ts';
import { integrations, tokenCollection, wireNameOf } from '../../providers/index.ts';
import type { TokenMembers } from '../../providers/provider.ts';
import { bearerToken } from '../auth.ts';
import { rawJson } from '../reply.ts';
import { type App, userRoute } from '../route.ts';
import { taken } from './integrations.ts';

const tags: [string] = ['Installations'];

/** Registers what a user connects to integrations: Slack workspaces, an inbox theme, a browser. */
export function installationRoutes(app: App): void {
  slackRoutes(app, 'slack', 'Slack');
  slackRoutes(app, 'slackbot', 'Slackbot');
  inboxRoutes(app);
  webPushRoutes(app);
}

function slackRoutes(app: App, provider: SlackProvider, name: string): void {
  const { wireName = provider } = integrations[provider] as { wireName?: string };
  const url = `/integrations/${wireName}/installations`;
  const called = wireNameOf(provider, app.context.config.BRAND);

  userRoute(app, {
    method: 'PUT',
    url,
    operationId: `save${name}Installation`,
    summary: `Save a ${called} installation that your app made`,
    description:
      "For apps that exchange Slack's code themselves. The installation serves only the messages of this " +
      'user; one made by `finish` serves the whole project. Belfry renews tokens that Slack rotates from ' +
      'then on, so your app must not; saving the same tokens again does not replace renewed ones.',
    tags,
    body: SlackInstallation,
    reply: { 200: SlackInstallation },
    async handler({ owner, project, body, context }) {
      await requireApp(context, { projectId: project.id, provider, appId: body.app_id });
      return saveStated(context, { ...owner, provider }, body);
    },
  });

  userRoute(app, {
    method: 'POST',
    url: `${url}/start`,
    operationId: `start${name}Installation`,
    summary: `Start a ${called} installation`,
    description:
      'Returns the address to which your app sends the user. Slack sends the user back with a `code` for ' +
      '`finish`.',
    tags,
    body: StartInstallation,
    reply: { 200: StartedInstallation },
    handler: ({ owner, project, body, context }) =>
      startInstallation(context, { ...owner, provider, signingKeys: project.signingKeys }, body),
  });

  userRoute(app, {
    method: 'POST',
    url: `${url}/finish`,
    operationId: `finish${name}Installation`,
    summary: `Finish a ${called} installation`,
    description:
      "Exchanges the code for the workspace's tokens and saves them for the project. Send the `state` of " +
      'the same query, which proves that this user started the installation. Slack accepts a code once, so ' +
      'it may be used up after a 503. With an `Idempotency-Key`, a request that repeats a crashed one gets ' +
      'a 409 with `Retry-After`.',
    tags,
    body: FinishInstallation,
    reply: { 200: SlackInstallation },
    idempotency: 'claimed',
    secretReply: true,
    handler: ({ owner, project, body, context }) =>
      finishInstallation(context, { ...owner, provider, signingKeys: project.signingKeys }, body),
  });
}

function inboxRoutes(app: App): void {
  const config = shownConfig(integrations.inbox);

  userRoute(app, {
    method: 'PUT',
    url: '/integrations/inbox/installations',
    operationId: 'saveInboxInstallation',
    summary: 'Save the inbox config of the user',
    description: 'Replaces the whole config of the inbox integration of the project for this user.',
    tags,
    body: taken(integrations.inbox),
    reply: { 200: config },
    async handler({ owner, body, context }) {
      const saved = await saveInboxInstallation(context, owner, body);
      return rawJson(JSON.stringify(saved));
    },
  });

  userRoute(app, {
    method: 'POST',
    url: '/integrations/inbox/installations/start',
    operationId: 'startInboxInstallation',
    summary: 'Get the inbox config of the user',
    description:
      'Returns the config that the user saved, or else that of the inbox integration of the project. ' +
      'Members are `null` if neither exists. Open inboxes get it as `inbox/theme` when it is saved.',
    tags,
    reply: { 200: config },
    // It only reads: stored responses would be a commit for every inbox that opens.
    idempotency: 'none',
    async handler({ project, user, context }) {
      const configOf = await inboxConfigsOf(context, { projectId: project.id, userIds: [user.id] });
      return rawJson(JSON.stringify(configOf(user.id)));
    },
  });
}

function webPushRoutes(app: App): void {
  const tokens = tokenCollection('web_push');
  const { hosts = [] } = tokens;
  userRoute(app, {
    method: 'PUT',
    url: '/integrations/web_push/installations',
    operationId: 'saveWebPushInstallation',
    summary: "Save a browser's subscription",
    description:
      'Does the same as `PUT /channels/web_push/tokens`: notifications reach this browser from then on.',
    tags,
    body: tokens.save,
    alsoWrong: ({ body }) => privateHostProblems(app.context, hosts, body),
    reply: { 200: tokens.saved },
    async handler({ owner, body, context }) {
      await rejectPrivateHosts(context, hosts, body);
      return rawJson(JSON.stringify(await saveToken(context, tokens, owner, body as TokenMembers)));
    },
  });

  userRoute(app, {
    method: 'POST',
    url: '/integrations/web_push/installations/start',
    operationId: 'startWebPushInstallation',
    summary: 'Get the key with which a browser subscribes',
    description:
      'Creates the VAPID keys of the project if it has none. With an `Idempotency-Key`, the stored ' +
      'response is returned only to requests with the same token.',
    tags,
    reply: { 200: StartedWebPush },
    secretReply: true,
    // The auth_token depends on the token of the request.
    replayedTo: 'token',
    handler({ project, credential, context, request }) {
      // The token has been verified before.
      const claims = decodeJwt(bearerToken(request.headers.authorization)) ?? {};
      return startWebPush(context, project.id, { claims, ...credential });
    },
  });
}
