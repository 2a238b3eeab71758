import { GraphQLList } from 'graphql';
import { Type } from 'typebox';
import { Preferences, SaveCategoryPreferences } from '../../contract/preference.ts';
import {
  changePreferences,
  contradictions,
  givenPreferences,
} from '../../domain/setup/preferences/change.ts';
import { getPreferences } from '../../domain/setup/preferences/get.ts';
import { type Cursor, NEWEST, OLDEST } from '../../lib/cursor.ts';
import type { ListPage } from '../../lib/page.ts';
import { connect, connectionType, pageArgs, readPageArgs } from './connections.ts';
import { type Builder, nonNull } from './fields.ts';

const Category = Preferences.properties.categories.items;
type Category = Preferences['categories'][number];

/** Adds the preferences of a user. */
export function preferenceFields({ types, queries, mutations }: Builder): void {
  const type = types.object(Category);
  const present = (category: Category) => types.present(Category, category);

  queries.ofUser('preferences', {
    type: nonNull(connectionType(type)),
    description:
      'The categories that the project has configured and those for which the user saved a preference, ' +
      'each with its channels. A channel is enabled until the user switches it off.',
    args: Type.Object(pageArgs),
    async resolve({ context, user }, args) {
      let all: Promise<Category[]> | undefined;
      const read = () => {
        all ??= getPreferences(context, user).then(({ categories }) => categories);
        return all;
      };
      const page = readPageArgs(args, () => true);
      return connect({
        page: async () => pageOf(await read(), page),
        edge: (category) => ({ cursor: category.key, node: present(category) }),
        count: async () => (await read()).length,
      });
    },
  });

  mutations.ofUser('savePreferences', {
    type: nonNull(new GraphQLList(nonNull(type))),
    description:
      'Switches categories on or off. Changes only the categories and channels in the input, and returns ' +
      'all preferences.',
    args: Type.Object({ input: SaveCategoryPreferences }),
    alsoWrong: (_scope, input) => contradictions(givenPreferences(input)),
    async resolve({ context, user }, { input }) {
      await changePreferences(context, user, givenPreferences(input));
      return (await getPreferences(context, user)).categories.map(present);
    },
  });
}

/** A page of a complete list, whose cursors are keys. Beyond an unknown key there is nothing. */
function pageOf(all: Category[], { direction, id, limit }: Cursor): ListPage<Category> {
  const at = all.findIndex(({ key }) => key === id);
  const [from, to] =
    direction === 'older'
      ? id === NEWEST
        ? [0, limit]
        : at < 0
          ? [all.length, all.length]
          : [at + 1, at + 1 + limit]
      : id === OLDEST
        ? [Math.max(0, all.length - limit), all.length]
        : [Math.max(0, at - limit), Math.max(0, at)];
  const items = all.slice(from, to);
  return {
    items,
    older: to < all.length ? items.at(-1)?.key : undefined,
    newer: from > 0 ? items[0]?.key : undefined,
  };
}
