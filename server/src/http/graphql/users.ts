import { GraphQLID } from 'graphql';
import { Type } from 'typebox';
import { described, Id } from '../../contract/common.ts';
import { SaveUser, UpdateUser, User, UserListQuery } from '../../contract/user.ts';
import { deleteUser } from '../../domain/after/erasure/delete-user.ts';
import { getUser, type UserRow, userJson } from '../../domain/people/users/get.ts';
import { countUsers, listUsers } from '../../domain/people/users/list.ts';
import { saveUser } from '../../domain/people/users/save.ts';
import { updateUser } from '../../domain/people/users/update.ts';
import { ClientError } from '../../errors.ts';
import { readJson } from '../../lib/exact-numbers.ts';
import { isId } from '../../lib/ids.ts';
import { readPage } from '../../lib/page.ts';
import { found } from '../found.ts';
import { connect, connectionType, pageArgs, readPageArgs } from './connections.ts';
import { type Builder, nonNull } from './fields.ts';

const ById = Type.Object({ id: described(Id, 'The id of the user.') });

/** Adds the users of a project. */
export function userFields({ types, queries, mutations }: Builder): void {
  const type = types.object(User);
  const present = (row: UserRow) => types.present(User, readJson(userJson(row)));

  queries.ofProject('users', {
    type: nonNull(connectionType(type)),
    description: 'The users of the project, newest first. Deleted users are not listed.',
    args: Type.Object({ ...pageArgs, query: UserListQuery.properties.query }),
    async resolve({ context: { db }, project }, args) {
      const page = readPageArgs(args, isId);
      return connect({
        page: () => readPage(page, (cursor) => listUsers(db, project.id, args.query, cursor)),
        edge: (row) => ({ cursor: row.id, node: present(row) }),
        count: () => countUsers(db, project.id, args.query),
      });
    },
  });

  queries.ofProject('user', {
    type,
    description: 'A user of the project; null if there is none with this id.',
    args: ById,
    async resolve({ context, project }, { id }) {
      const row = await getUser(context.db, project.id, id);
      return row && present(row);
    },
  });

  mutations.ofProject('saveUser', {
    type: nonNull(type),
    description: 'Creates or updates a user.',
    args: Type.Object({ input: SaveUser }),
    resolve: async ({ context, project }, { input }) => present(await saveUser(context, project.id, input)),
  });

  mutations.ofProject('updateUser', {
    type: nonNull(type),
    description: 'Updates a user, including its identities. Members that are missing stay, and null clears.',
    args: Type.Object({ ...ById.properties, input: UpdateUser }),
    async resolve({ context, project }, { id, input }) {
      return present(found(await updateUser(context, project.id, id.toLowerCase(), input)));
    },
  });

  mutations.ofProject('deleteUser', {
    type: nonNull(GraphQLID),
    description:
      'Deletes a user: hidden at once, and erased after seven days, unless a request of the user restores ' +
      'it. Returns the id.',
    args: ById,
    async resolve({ context, project }, { id }) {
      if (!(await deleteUser(context, project.id, id.toLowerCase()))) throw new ClientError('not_found');
      return id.toLowerCase();
    },
  });
}
