import { NoContent } from '../../contract/common.ts';
import { SaveUser, UpdateUser, User, UserInPath, UserListQuery, UserPage } from '../../contract/user.ts';
import { deleteUser } from '../../domain/after/erasure/delete-user.ts';
import { getUserByReference, userJson } from '../../domain/people/users/get.ts';
import { listUsers } from '../../domain/people/users/list.ts';
import { saveUser } from '../../domain/people/users/save.ts';
import { updateUser } from '../../domain/people/users/update.ts';
import { ClientError } from '../../errors.ts';
import { found } from '../found.ts';
import { userInPath } from '../in-path.ts';
import { rawJson, rawPage } from '../reply.ts';
import { type App, projectRoute } from '../route.ts';

const tags: [string] = ['Users'];

/** Registers `/users`. */
export function userRoutes(app: App): void {
  projectRoute(app, {
    method: 'PUT',
    url: '/users',
    operationId: 'saveUser',
    summary: 'Create or update a user',
    description:
      'Updates the user with this `external_id`, or else with this `email`, or creates one. Members in ' +
      'the body replace stored values, missing members stay, and `null` clears. A user deleted ' +
      'less than seven days ago is restored.',
    tags,
    body: SaveUser,
    reply: { 200: User },
    async handler({ project, body, context }) {
      return rawJson(userJson(await saveUser(context, project.id, body)));
    },
  });

  projectRoute(app, {
    method: 'GET',
    url: '/users',
    operationId: 'listUsers',
    summary: 'List the users of the project, newest first',
    description:
      'Find users by the beginning of their `external_id`, e-mail address or name with `query`. Deleted ' +
      'users are not listed.',
    tags,
    query: UserListQuery,
    reply: { 200: UserPage },
    async handler({ project, query, paginate, context }) {
      const list = await paginate(
        query,
        (cursor) => listUsers(context.db, project.id, query.query, cursor),
        userJson,
      );
      return rawPage(list);
    },
  });

  projectRoute(app, {
    method: 'GET',
    url: '/users/:user_id',
    operationId: 'getUser',
    summary: 'Get a user',
    description:
      'Returns a user by its `id`, `external_id:<id>` or `email:<address>`. Encode reserved characters: ' +
      '`/users/external_id:a%2Fb`.',
    tags,
    params: UserInPath,
    reply: { 200: User },
    async handler({ project, params, context }) {
      return rawJson(userJson(found(await getUserByReference(context.db, project.id, params.user_id))));
    },
  });

  projectRoute(app, {
    method: 'PATCH',
    url: '/users/:user_id',
    operationId: 'updateUser',
    summary: 'Update a user, including its identities',
    description:
      'Members in the body replace stored values, missing members stay, and `null` clears. A new ' +
      '`external_id` renames the user, with all notifications, tokens and preferences. From then on, the ' +
      'former one belongs to no user. A user keeps at least one of `external_id` and `email`.',
    tags,
    params: UserInPath,
    body: UpdateUser,
    reply: { 200: User },
    async handler(call) {
      const { projectId, userId } = await userInPath(call);
      const user = found(await updateUser(call.context, projectId, userId, call.body));
      return rawJson(userJson(user));
    },
  });

  projectRoute(app, {
    method: 'DELETE',
    url: '/users/:user_id',
    operationId: 'deleteUser',
    summary: 'Delete a user',
    description:
      'The user is hidden at once: deliveries and connections end, and broadcasts that name the user ' +
      'report it in `status.errors`. After seven days all personal data is erased, also in the ' +
      'recipients of broadcasts, where `external_id` becomes `deleted:<id>`. Until then a request of ' +
      'that user, or PUT /users with the same identity, restores everything. A request that resumes a ' +
      'stream does not.',
    tags,
    params: UserInPath,
    reply: { 204: NoContent },
    async handler(call) {
      const { projectId, userId } = await userInPath(call);
      if (!(await deleteUser(call.context, projectId, userId))) throw new ClientError('not_found');
    },
  });
}
