import {
  FinishInstallation,
  SlackInstallation,
  StartedInstallation,
  StartedWebPush,
  StartInstallation,
} from '../../contract/installation.ts';
import { webPushToken } from '../../contract/token.ts';
import { privateHostProblems, rejectPrivateHosts } from '../../domain/ground/requests/private-hosts.ts';
import type { SlackProvider } from '../../domain/people/installations/app.ts';
import { finishInstallation } from '../../domain/people/installations/finish.ts';
import { inboxConfigOf, saveInboxInstallation } from '../../domain/people/installations/inbox.ts';
import { saveStated } from '../../domain/people/installations/save.ts';
import { requireApp, startInstallation } from '../../domain/people/installations/start.ts';
import { startWebPush } from '../../domain/people/installations/web-push.ts';
import { webPushTokens } from '../../domain/people/tokens/channels.ts';
import { saveToken } from '../../domain/people/tokens/save.ts';
import { decodeJwt } from '../../lib/jwt.ts';
import { integrations, wireNameOf } from '../../providers/index.ts';
import { bearerToken } from '../auth.ts';
import { rawJson } from '../reply.ts';
import { type App, userRoute } from '../route.ts';
import { shown, taken } from './integrations.ts';
import { WEB_PUSH_HOSTS } from './tokens.ts';

const tags: [string] = ['Installations'];

/** What a user connects to the project's integrations: Slack workspaces, a look of the inbox, a browser. */
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
    summary: `Save a ${called} installation that was made elsewhere`,
    description:
      "For programs that exchange Slack's code themselves. It serves this user's messages alone; one that `finish` has made serves everybody's in the project. " +
      'Tokens that Slack rotates are renewed from then on, so whoever saves them must not renew them, too. The same tokens saved again do not take the place of renewed ones.',
    tags,
    body: SlackInstallation,
    reply: { 200: SlackInstallation },
    async handler({ project, user, body, context }) {
      await requireApp(context, { projectId: project.id, provider, appId: body.app_id });
      return saveStated(context, { projectId: project.id, userId: user.id, provider }, body);
    },
  });

  userRoute(app, {
    method: 'POST',
    url: `${url}/start`,
    operationId: `start${name}Installation`,
    summary: `Start a ${called} installation`,
    description:
      'Answers the address to send the user to. Slack sends the user back with a `code`, which `finish` takes.',
    tags,
    body: StartInstallation,
    reply: { 200: StartedInstallation },
    handler: ({ project, user, body, context }) =>
      startInstallation(
        context,
        { projectId: project.id, userId: user.id, provider, signingKeys: project.signingKeys },
        body,
      ),
  });

  userRoute(app, {
    method: 'POST',
    url: `${url}/finish`,
    operationId: `finish${name}Installation`,
    summary: `Finish a ${called} installation`,
    description:
      "Exchanges the code for the workspace's tokens and saves them for the project. Give the `state` of the same query along: it proves that this user started what is finished here. " +
      'A code is good for one time: after a 503 it may be used up. With an `Idempotency-Key` a concurrent request waits for the response of the first; after a crash it is a 409 with `Retry-After`.',
    tags,
    body: FinishInstallation,
    reply: { 200: SlackInstallation },
    idempotency: 'claimed',
    secretReply: true,
    handler: ({ project, user, body, context }) =>
      finishInstallation(
        context,
        { projectId: project.id, userId: user.id, provider, signingKeys: project.signingKeys },
        body,
      ),
  });
}

function inboxRoutes(app: App): void {
  const config = shown(integrations.inbox);

  userRoute(app, {
    method: 'PUT',
    url: '/integrations/inbox/installations',
    operationId: 'saveInboxInstallation',
    summary: "Save how the user's own inbox looks",
    description: "Takes the place of the project's inbox integration for this user, as a whole.",
    tags,
    body: taken(integrations.inbox),
    reply: { 200: config },
    async handler({ project, user, body, context }) {
      const saved = await saveInboxInstallation(context, { projectId: project.id, userId: user.id }, body);
      return rawJson(JSON.stringify(saved));
    },
  });

  userRoute(app, {
    method: 'POST',
    url: '/integrations/inbox/installations/start',
    operationId: 'startInboxInstallation',
    summary: "Ask how the user's inbox looks",
    description: "As the user has it, else as the project's integration has it, else all `null`.",
    tags,
    reply: { 200: config },
    async handler({ project, user, context }) {
      const effective = await inboxConfigOf(context, { projectId: project.id, userId: user.id });
      return rawJson(JSON.stringify(effective));
    },
  });
}

function webPushRoutes(app: App): void {
  userRoute(app, {
    method: 'PUT',
    url: '/integrations/web_push/installations',
    operationId: 'saveWebPushInstallation',
    summary: "Save a browser's subscription",
    description: 'The same as saving a web push token.',
    tags,
    body: webPushToken.save,
    alsoWrong: ({ body }) => privateHostProblems(app.context, WEB_PUSH_HOSTS, body),
    reply: { 200: webPushToken.saved },
    async handler({ project, user, body, context }) {
      await rejectPrivateHosts(context, WEB_PUSH_HOSTS, body);
      const owner = { projectId: project.id, userId: user.id };
      return rawJson(JSON.stringify(await saveToken(context, webPushTokens, owner, body)));
    },
  });

  userRoute(app, {
    method: 'POST',
    url: '/integrations/web_push/installations/start',
    operationId: 'startWebPushInstallation',
    summary: 'Ask what a browser needs to subscribe',
    description:
      "Makes the project's VAPID keys when it has none. With an `Idempotency-Key` a repeat is answered the same where it comes with the same token.",
    tags,
    reply: { 200: StartedWebPush },
    secretReply: true,
    // The auth_token of a token that lasts longer, or of another name, is for nobody else.
    replayedTo: 'token',
    handler({ project, credential, context, request }) {
      // The caller was admitted by it, so it can be read.
      const claims = decodeJwt(bearerToken(request.headers.authorization)) ?? {};
      return startWebPush(context, project.id, { claims, ...credential });
    },
  });
}
