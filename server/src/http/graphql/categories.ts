import { GraphQLString } from 'graphql';
import { Type } from 'typebox';
import { CategoryConfig } from '../../contract/category.ts';
import { deleteCategory } from '../../domain/setup/categories/delete.ts';
import {
  type CategoryRow,
  countCategories,
  getCategory,
  listCategories,
} from '../../domain/setup/categories/list.ts';
import { categoryProblems, saveCategory } from '../../domain/setup/categories/save.ts';
import { ClientError } from '../../errors.ts';
import { isId } from '../../lib/ids.ts';
import { readPage } from '../../lib/page.ts';
import { connect, connectionType, pageArgs, readPageArgs } from './connections.ts';
import { type Builder, hasProjectRights, nonNull } from './fields.ts';

const ByKey = Type.Object({ key: Type.String({ description: 'The key of the category.' }) });

/** Adds the categories that a project has configured. */
export function categoryFields({ types, queries, mutations }: Builder): void {
  const type = types.object(CategoryConfig);
  const presentAll = (row: CategoryRow) => types.present(CategoryConfig, JSON.parse(row.config));
  const presentToUsers = ({ config }: CategoryRow) => {
    const { channels, ...rest } = JSON.parse(config) as CategoryConfig;
    const shown = channels.map(({ if: _, windows: __, ...channel }) => channel);
    return types.present(CategoryConfig, { ...rest, channels: shown });
  };

  queries.ofAnyone('categories', {
    type: nonNull(connectionType(type)),
    description: 'The category configs of the project, newest first. Users get no conditions and windows.',
    args: Type.Object(pageArgs),
    async resolve({ context: { db }, caller }, args) {
      const { project } = caller;
      const present = hasProjectRights(caller) ? presentAll : presentToUsers;
      const page = readPageArgs(args, isId);
      return connect({
        page: () => readPage(page, (cursor) => listCategories(db, project.id, cursor)),
        edge: (row) => ({ cursor: row.id, node: present(row) }),
        count: () => countCategories(db, project.id),
      });
    },
  });

  queries.ofProject('category', {
    type,
    description: 'The config of a category; null if it has none: it is sent on every channel.',
    args: ByKey,
    async resolve({ context, project }, { key }) {
      const row = await getCategory(context.db, project.id, key);
      return row && presentAll(row);
    },
  });

  mutations.ofProject('saveCategory', {
    type: nonNull(type),
    description: 'Saves on which channels a category is sent. Replaces the config that has this key.',
    args: Type.Object({ input: CategoryConfig }),
    alsoWrong: (_scope, input) => categoryProblems(input),
    async resolve({ context, project }, { input }) {
      await saveCategory(context, project.id, input);
      return types.present(CategoryConfig, input);
    },
  });

  mutations.ofProject('deleteCategory', {
    type: nonNull(GraphQLString),
    description: 'Deletes the config of a category, which is then sent on every channel. Returns its key.',
    args: ByKey,
    async resolve({ context, project }, { key }) {
      if (!(await deleteCategory(context, project.id, key))) throw new ClientError('not_found');
      return key;
    },
  });
}
