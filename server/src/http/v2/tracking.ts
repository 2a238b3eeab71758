import { Tracking } from '../../contract/tracking.ts';
import { getTracking, problemsOfTracking, saveTracking } from '../../domain/setup/tracking/settings.ts';
import { memberOf } from '../../lib/members.ts';
import { type App, projectRoute } from '../route.ts';

const tags: [string] = ['Tracking'];

/** Registers `/tracking`. */
export function trackingRoutes(app: App): void {
  const { config } = app.context;

  projectRoute(app, {
    method: 'GET',
    url: '/tracking',
    operationId: 'getTracking',
    summary: 'Get whether opens and clicks are recorded',
    description: 'Returns the setting of the project. Both are off until they are switched on.',
    tags,
    reply: { 200: Tracking },
    handler: ({ project, context }) => getTracking(context.db, project.id),
  });

  projectRoute(app, {
    method: 'PUT',
    url: '/tracking',
    operationId: 'saveTracking',
    summary: 'Save whether opens and clicks are recorded',
    description:
      'Applies to messages that are sent from then on. After it is switched off, nothing is recorded for ' +
      'earlier messages, and their links still work. Requires the setting `PUBLIC_URL` of the server.',
    tags,
    body: Tracking,
    alsoWrong: ({ body }) =>
      problemsOfTracking(config, { opens: memberOf(body, 'opens'), clicks: memberOf(body, 'clicks') }),
    reply: { 200: Tracking },
    async handler({ project, body, context }) {
      await saveTracking(context, project.id, body);
      return body;
    },
  });
}
