import { ImportInPath, ImportUsers, UserImport } from '../../contract/user-import.ts';
import { createImport } from '../../domain/people/imports/create.ts';
import { getImport, importFailures } from '../../domain/people/imports/get.ts';
import { ClientError } from '../../errors.ts';
import { found } from '../found.ts';
import { rawJson } from '../reply.ts';
import { type App, projectRoute } from '../route.ts';

const tags: [string] = ['Users'];

/** Registers `/users/import` and `/imports`. */
export function userImportRoutes(app: App): void {
  projectRoute(app, {
    method: 'POST',
    url: '/users/import',
    operationId: 'importUsers',
    summary: 'Create or update up to 10,000 users',
    description:
      'Each user is saved as by `PUT /users`, except that an identity is never cleared. The body is JSON, ' +
      'NDJSON with a user on each line, or CSV with a header. Columns of CSV are `external_id`, `email`, ' +
      '`first_name`, `last_name`, `locale`, `phone_numbers` (separated by `;`), `custom_attributes` (JSON) ' +
      'and `custom_attributes.<name>`; an empty cell changes nothing. Users are imported in the ' +
      'background. One that is not valid, or whose identities belong to two users, is listed in `failures` ' +
      'and does not affect the others: get the import by its id. Of two entries about one user, the later ' +
      'one counts.',
    tags,
    body: ImportUsers,
    users: true,
    bodyLimit: 10 * 1024 * 1024,
    reply: { 202: UserImport },
    async handler({ project, request: { pages }, context }) {
      if (pages === undefined) throw new ClientError('validation_failed', ["Param 'users' is missing"]);
      const created = await createImport(context, project.id, pages);
      context.wake('import_users');
      return rawJson(JSON.stringify({ ...created, failures: [] }));
    },
  });

  projectRoute(app, {
    method: 'GET',
    url: '/imports/:import_id',
    operationId: 'getUserImport',
    summary: 'Get the progress and the failures of an import',
    description:
      'The users that failed are listed with all their problems. Imports are deleted after seven days.',
    tags,
    params: ImportInPath,
    reply: { 200: UserImport },
    async handler({ project, params, context }) {
      const stored = found(await getImport(context.db, project.id, params.import_id));
      const failures = stored.failed === 0 ? [] : await importFailures(context.db, stored.id);
      return rawJson(JSON.stringify({ ...stored, failures }));
    },
  });
}
