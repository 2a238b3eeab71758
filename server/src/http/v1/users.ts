import { NoContent } from '../../contract/common.ts';
import { UserInPath } from '../../contract/user.ts';
import {
  CreateLegacyUser,
  LegacyUserPage,
  LegacyUserQuery,
  UpdateLegacyUser,
  WrappedUser,
} from '../../contract/v1/user.ts';
import { deleteUser } from '../../domain/after/erasure/delete-user.ts';
import { findUser } from '../../domain/people/users/find.ts';
import { getUserByReference, type UserRow } from '../../domain/people/users/get.ts';
import { listNumberedUsers, type UserOrder } from '../../domain/people/users/list-numbered.ts';
import { saveUser } from '../../domain/people/users/save.ts';
import { updateUser } from '../../domain/people/users/update.ts';
import { type RawJson, rawJson } from '../reply.ts';
import { type App, projectRoute } from '../route.ts';
import { found, notFound } from './found.ts';
import { whole } from './numbered-page.ts';
import { recipientJson } from './recipient.ts';

const tags: [string] = ['Users'];

/** Registers `/users`. */
export function userRoutes(app: App): void {
  projectRoute(app, {
    method: 'POST',
    url: '/users',
    operationId: 'createUserV1',
    summary: 'Create a user',
    description:
      'Updates the user with this `external_id`, or else with this `email`, if there is one. A user ' +
      'deleted less than seven days ago is restored.',
    tags,
    body: CreateLegacyUser,
    reply: { 201: WrappedUser },
    handler: async ({ project, body, context }) => wrapped(await saveUser(context, project.id, body.user)),
  });

  projectRoute(app, {
    method: 'GET',
    url: '/users',
    operationId: 'listUsersV1',
    summary: 'List the users of the project',
    description:
      'Returns a page of the users. Deleted users are not listed. The order `last_notified_at`, and ' +
      'filters by it that few users match, read every user of the project: seconds for some million users.',
    tags,
    query: LegacyUserQuery,
    reply: { 200: LegacyUserPage },
    async handler({ project, query, context }) {
      const { page = 1, per_page: perPage = 20, order_by: orderBy = 'created_at,DESC' } = query;
      const [order, direction] = orderBy.toLowerCase().split(',') as [UserOrder, 'asc' | 'desc'];
      const rows = await listNumberedUsers(context.db, project.id, {
        ...{ page, perPage, order, direction },
        seenBefore: timeIn(query['last_seen_at:before']),
        seenAfter: timeIn(query['last_seen_at:after']),
        notifiedBefore: timeIn(query['last_notified_at:before']),
        notifiedAfter: timeIn(query['last_notified_at:after']),
      });
      const texts = whole(rows.map(json), { length: rows[0]?.found ?? 0 });
      return rawJson(`{"current_page":${page},"per_page":${perPage},"users":[${texts.join(',')}]}`);
    },
  });

  projectRoute(app, {
    method: 'GET',
    url: '/users/:user_id',
    operationId: 'getUserV1',
    summary: 'Get a user',
    description: 'Returns a user. A lookup neither creates nor restores it.',
    tags,
    params: UserInPath,
    reply: { 200: WrappedUser },
    async handler({ project, params, context }) {
      return wrapped(found(await getUserByReference(context.db, project.id, params.user_id), 'user'));
    },
  });

  projectRoute(app, {
    method: 'PUT',
    url: '/users/:user_id',
    operationId: 'updateUserV1',
    summary: 'Update a user, including its identities',
    description: 'Members in the body replace stored values, missing members stay, and `null` clears.',
    tags,
    params: UserInPath,
    body: UpdateLegacyUser,
    reply: { 200: WrappedUser },
    async handler({ project, params, body, context }) {
      const id = found(await findUser(context.db, project.id, params.user_id), 'user');
      return wrapped(found(await updateUser(context, project.id, id, body.user, 'user'), 'user'));
    },
  });

  projectRoute(app, {
    method: 'DELETE',
    url: '/users/:user_id',
    operationId: 'deleteUserV1',
    summary: 'Delete a user',
    description:
      'The user is hidden at once, and erased after seven days. Until then a request of that user restores ' +
      'everything.',
    tags,
    params: UserInPath,
    reply: { 204: NoContent },
    async handler({ project, params, context }) {
      const id = found(await findUser(context.db, project.id, params.user_id), 'user');
      if (!(await deleteUser(context, project.id, id))) throw notFound('user');
    },
  });
}

/** The database does not know all texts of times that are valid: it has no year 0. */
const timeIn = (text: string | undefined) => (text === undefined ? undefined : new Date(text));

const json = (user: UserRow) => recipientJson(user, ['phone_numbers']);

function wrapped(user: UserRow): RawJson {
  return rawJson(`{"user":${json(user)}}`);
}
