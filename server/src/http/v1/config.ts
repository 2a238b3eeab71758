import { LegacyConfig } from '../../contract/v1/config.ts';
import { startWebPush } from '../../domain/people/installations/web-push.ts';
import { SUBSCRIBE_PAGE } from '../pages/push-page.ts';
import { type App, baseUrl, userRoute } from '../route.ts';
import { claimsOf } from './tokens.ts';

/** Registers `/config`, which clients read before they show the inbox. */
export function configRoutes(app: App): void {
  userRoute(app, {
    method: 'GET',
    url: '/config',
    operationId: 'getConfigV1',
    summary: 'Get the config of the inbox',
    description:
      'Returns the features of the inbox, and how a browser subscribes to web push if the project has an ' +
      'integration for it.',
    tags: ['Configuration'],
    reply: { 200: LegacyConfig },
    async handler({ project, user, credential, context, request }) {
      const connected = await context.integrations.of(project.id);
      const enabled = connected.some(({ channel }) => channel === 'web_push');
      const on = { enabled: true };
      return {
        ws: { channel: user.id },
        inbox: {
          features: {
            notification_preferences: on,
            [`no_${context.config.BRAND}_branding`]: on,
          },
        },
        channels: { web_push: { enabled, config: enabled ? await webPushConfig() : {} } },
      };

      async function webPushConfig() {
        const claims = await claimsOf(context, project, user.id);
        const started = await startWebPush(context, project.id, { claims, ...credential });
        return {
          // In the fragment, which browsers send to no server.
          subscribe_url: `${baseUrl(app, request)}${SUBSCRIBE_PAGE}#${started.auth_token}`,
          vapid_authentication: { public_key: started.public_key },
        };
      }
    },
  });
}
