import { Tracking } from '../../contract/tracking.ts';
import { getTracking } from '../../domain/setup/tracking/get.ts';
import { problemsOfTracking } from '../../domain/setup/tracking/problems.ts';
import { saveTracking } from '../../domain/setup/tracking/save.ts';
import { memberOf } from '../../lib/members.ts';
import { type App, projectRoute } from '../route.ts';

const tags: [string] = ['Tracking'];

/** GET and PUT of /tracking. */
export function trackingRoutes(app: App): void {
  const { config } = app.context;

  projectRoute(app, {
    method: 'GET',
    url: '/tracking',
    operationId: 'getTracking',
    summary: 'Get whether opens and clicks are recorded',
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
      'Neither is, unless it is switched on here. It counts for what is sent from then on; once it is switched off, nothing is recorded of what was sent before, and its links lead on. Needs the setting `PUBLIC_URL` of the server.',
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
