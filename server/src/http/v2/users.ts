import { Type } from 'typebox';
import { Id, NoContent } from '../../contract/common.ts';
import { SaveUser, User, UserListQuery, UserPage } from '../../contract/user.ts';
import { deleteUser } from '../../domain/after/erasure/delete-user.ts';
import { getUser, userJson } from '../../domain/people/users/get.ts';
import { listUsers } from '../../domain/people/users/list.ts';
import { saveUser } from '../../domain/people/users/save.ts';
import { ClientError } from '../../errors.ts';
import { rawJson } from '../reply.ts';
import { type App, projectRoute } from '../route.ts';

const tags: [string] = ['Users'];

/** PUT, GET, list and DELETE of /users. */
export function userRoutes(app: App): void {
  projectRoute(app, {
    method: 'PUT',
    url: '/users',
    operationId: 'saveUser',
    summary: 'Create or update a user',
    description: 'A user who was deleted less than seven days ago is restored by it.',
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
    tags,
    query: UserListQuery,
    reply: { 200: UserPage },
    async handler({ project, query, paginate, context }) {
      const list = await paginate(
        query,
        (cursor) => listUsers(context.db, project.id, query.query, cursor),
        userJson,
      );
      return rawJson(`{"data":[${list.data.join(',')}],"links":${JSON.stringify(list.links)}}`);
    },
  });

  projectRoute(app, {
    method: 'GET',
    url: '/users/:user_id',
    operationId: 'getUser',
    summary: 'Get a user',
    tags,
    params: Type.Object({ user_id: Id }),
    reply: { 200: User },
    async handler({ project, params, context }) {
      const user = await getUser(context.db, project.id, params.user_id);
      if (user === undefined) throw new ClientError('not_found');
      return rawJson(userJson(user));
    },
  });

  projectRoute(app, {
    method: 'DELETE',
    url: '/users/:user_id',
    operationId: 'deleteUser',
    summary: 'Delete a user',
    description:
      'Hidden at once: nothing is delivered any more, connections are closed, and a broadcast that names the user reports it in its ' +
      '`status.errors`. Seven days later everything that is known about the user is erased, in the recipients of broadcasts too: there ' +
      '`external_id` is `deleted:<id>` then. Until then any request that the user makes, and PUT /users with the same identity, restores all of it.',
    tags,
    params: Type.Object({ user_id: Id }),
    reply: { 204: NoContent },
    async handler({ project, params, context }) {
      if (!(await deleteUser(context, project.id, params.user_id.toLowerCase())))
        throw new ClientError('not_found');
    },
  });
}
