import { Type } from 'typebox';
import { CategoryConfig, CategoryPage, CategoryPageQuery } from '../../contract/category.ts';
import { NoContent } from '../../contract/common.ts';
import { deleteCategory } from '../../domain/setup/categories/delete.ts';
import { getCategory, listCategories } from '../../domain/setup/categories/list.ts';
import { categoryProblems, saveCategory } from '../../domain/setup/categories/save.ts';
import { ClientError } from '../../errors.ts';
import { isId } from '../../lib/ids.ts';
import { found } from '../found.ts';
import { rawJson, rawPage } from '../reply.ts';
import { type App, type Call, projectRoute } from '../route.ts';

const tags: [string] = ['Category delivery'];
const ByKey = Type.Object({
  key: Type.String({
    description: 'The key of the category. Write a `/` in it as `%2F`.',
    examples: ['orders%2Fshipped'],
  }),
});

/** Registers `/channels`: the channels, delays and conditions of each category. */
export function categoryRoutes(app: App): void {
  projectRoute(app, {
    method: 'PUT',
    url: '/channels',
    operationId: 'saveCategoryDeliveryConfig',
    summary: 'Save on which channels a category is sent',
    description:
      'Replaces the config that has this `key`. A category without a config is sent on every channel ' +
      'that the project has set up. A channel that a user switched off stays off, unless the category is ' +
      '`critical`.',
    tags,
    body: CategoryConfig,
    alsoWrong: ({ body }) => categoryProblems(body),
    reply: { 200: CategoryConfig },
    async handler({ project, body, context }) {
      await saveCategory(context, project.id, body);
      return rawJson(JSON.stringify(body));
    },
  });

  projectRoute(app, {
    method: 'GET',
    url: '/channels',
    operationId: 'listCategoryDeliveryConfigs',
    summary: 'List the category configs, newest first',
    description: 'A config keeps its place when it is saved again. The cursors are keys of categories.',
    tags,
    query: CategoryPageQuery,
    reply: { 200: CategoryPage },
    async handler({ project, query, paginate, context }) {
      const list = await paginate(
        {
          ...query,
          starting_after: await cursorOf(context, project.id, 'starting_after', query.starting_after),
          ending_before: await cursorOf(context, project.id, 'ending_before', query.ending_before),
        },
        (cursor) => listCategories(context.db, project.id, cursor),
        (row) => row.config,
      );
      return rawPage(list);
    },
  });

  projectRoute(app, {
    method: 'GET',
    url: '/channels/:key',
    operationId: 'getCategoryDeliveryConfig',
    summary: 'Get the config of a category',
    description:
      'Returns the config as it was saved. Responds 404 for a category without one: it is sent on every ' +
      'channel.',
    tags,
    params: ByKey,
    reply: { 200: CategoryConfig },
    async handler({ project, params, context }) {
      return rawJson(found(await getCategory(context.db, project.id, params.key)).config);
    },
  });

  projectRoute(app, {
    method: 'DELETE',
    url: '/channels/:key',
    operationId: 'deleteCategoryDeliveryConfig',
    summary: 'Delete the config of a category',
    description:
      'From then on the category is sent at once on every channel that the project has set up. The ' +
      'preferences of users for this category remain.',
    tags,
    params: ByKey,
    reply: { 204: NoContent },
    async handler({ project, params, context }) {
      if (!(await deleteCategory(context, project.id, params.key))) throw new ClientError('not_found');
    },
  });
}

type CallContext = Call<unknown, unknown, unknown>['context'];

/** The position of a key in the list. `links` hold ids, which remain valid when a config is deleted. */
async function cursorOf(
  { db }: CallContext,
  projectId: string,
  name: string,
  given: string | null | undefined,
): Promise<string | null> {
  if (!given) return null;
  const row = await getCategory(db, projectId, given);
  if (row !== undefined) return row.id;
  if (isId(given)) return given;
  throw new ClientError('validation_failed', [`Param '${name}' is not the key of a record`]);
}
