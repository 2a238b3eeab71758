import { type ImportFailure, ImportInPath } from '../../contract/user-import.ts';
import { CreateLegacyImport, type LegacyImport, WrappedImport } from '../../contract/v1/user.ts';
import { createImport } from '../../domain/people/imports/create.ts';
import { getImport, type ImportRow, importFailures } from '../../domain/people/imports/get.ts';
import { ClientError } from '../../errors.ts';
import { found } from '../found.ts';
import { type App, projectRoute } from '../route.ts';

const tags: [string] = ['Users'];

/** Registers `/imports`. */
export function importRoutes(app: App): void {
  projectRoute(app, {
    method: 'POST',
    url: '/imports',
    operationId: 'createImportV1',
    summary: 'Create or update up to 10,000 users',
    description:
      'The users are imported in the background. One that fails is listed in `failures`, and does not ' +
      'affect the others.',
    tags,
    body: CreateLegacyImport,
    users: true,
    wrapper: 'import',
    bodyLimit: 10 * 1024 * 1024,
    reply: { 201: WrappedImport },
    async handler({ project, request: { pages }, context }) {
      if (pages === undefined)
        throw new ClientError('validation_failed', ["Param 'import.users' is missing"]);
      const created = await createImport(context, project.id, pages);
      context.wake('import_users');
      return { import: legacyImport(created, []) };
    },
  });

  projectRoute(app, {
    method: 'GET',
    url: '/imports/:import_id',
    operationId: 'getImportV1',
    summary: 'Get the progress and the failures of an import',
    description: 'Imports are deleted after seven days.',
    tags,
    params: ImportInPath,
    reply: { 200: WrappedImport },
    async handler({ project, params, context }) {
      const stored = found(await getImport(context.db, project.id, params.import_id));
      const failures = stored.failed === 0 ? [] : await importFailures(context.db, stored.id);
      return { import: legacyImport(stored, failures) };
    },
  });
}

function legacyImport(
  { id, status, total, failed }: ImportRow,
  failures: readonly ImportFailure[],
): LegacyImport {
  return {
    id,
    status,
    summary: { total, failures: failed },
    errors: failures.map(({ user, errors }) => ({
      ...user,
      message: errors.map(({ message }) => message).join('; '),
    })),
    failures: { users: failures.map(({ user, errors }) => ({ ...user, errors: byMember(errors) })) },
  };
}

/** Returns the problems of each member of a user. */
function byMember(errors: ImportFailure['errors']): Record<string, string[]> {
  const named = errors.map(({ message }) => {
    const [, path = '(root)', problem = message] = /^Param '([^']+)' (.*)$/s.exec(message) ?? [];
    return { member: path === '(root)' ? 'base' : (path.split('.')[0] ?? 'base'), problem };
  });
  const members = Map.groupBy(named, ({ member }) => member);
  return Object.fromEntries([...members].map(([member, all]) => [member, all.map(({ problem }) => problem)]));
}
