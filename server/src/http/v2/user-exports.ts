import { Type } from 'typebox';
import { UserInPath } from '../../contract/user.ts';
import { UserExport, UserExportQuery } from '../../contract/user-export.ts';
import { exportUser } from '../../domain/after/export/export-user.ts';
import { exportUsers } from '../../domain/people/users/export.ts';
import { getUserByReference } from '../../domain/people/users/get.ts';
import { found } from '../found.ts';
import { rawJson, sendParts } from '../reply.ts';
import { type App, projectRoute } from '../route.ts';

const tags: [string] = ['Users'];
const MEDIA_TYPES = { ndjson: 'application/x-ndjson', csv: 'text/csv; charset=utf-8' };

/** Registers `/users/export` and `/users/{user_id}/export`. */
export function userExportRoutes(app: App): void {
  projectRoute(app, {
    method: 'GET',
    url: '/users/export',
    operationId: 'exportUsers',
    summary: 'Export all users of the project',
    description:
      'Streams every user, oldest first. `POST /users/import` accepts both formats. Deleted users are not ' +
      'exported. An export that fails breaks off without the end of the response.',
    tags,
    query: UserExportQuery,
    produces: ['application/x-ndjson', 'text/csv'],
    reply: { 200: Type.String() },
    async handler({ project, query: { format = 'ndjson' }, context, reply }) {
      await sendParts(reply, MEDIA_TYPES[format], exportUsers(context.db, project.id, format));
      return '';
    },
  });

  projectRoute(app, {
    method: 'GET',
    url: '/users/:user_id/export',
    operationId: 'exportUser',
    summary: 'Export everything that is stored about a user',
    description:
      'Streams the profile, former identities, preferences, delivery windows, tokens without their ' +
      'secrets, subscriptions, notifications with their deliveries, suppressed addresses, failures of ' +
      'imports, workflow runs, and events. An export that fails breaks off without the end of the response.',
    tags,
    params: UserInPath,
    reply: { 200: UserExport },
    async handler({ project, params, context, reply }) {
      const user = found(await getUserByReference(context.db, project.id, params.user_id));
      const exported = exportUser({ ...context, brand: context.config.BRAND }, project.id, user);
      await sendParts(reply, 'application/json; charset=utf-8', exported);
      return rawJson('');
    },
  });
}
