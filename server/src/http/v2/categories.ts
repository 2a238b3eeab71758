import { Type } from 'typebox';
import { CategoryConfig, CategoryPage, CategoryPageQuery } from '../../contract/category.ts';
import { NoContent } from '../../contract/common.ts';
import { deleteCategory } from '../../domain/setup/categories/delete.ts';
import { getCategory, listCategories } from '../../domain/setup/categories/list.ts';
import { categoryProblems, saveCategory } from '../../domain/setup/categories/save.ts';
import { ClientError } from '../../errors.ts';
import { isId } from '../../lib/ids.ts';
import { rawJson } from '../reply.ts';
import { type App, type Call, projectRoute } from '../route.ts';

const tags: [string] = ['Category delivery'];
const ByKey = Type.Object({
  key: Type.String({
    description: 'The category; a `/` in it is written `%2F`.',
    examples: ['orders%2Fshipped'],
  }),
});

/** PUT, GET and list of /channels, and DELETE: where, when and on what condition a category goes out. */
export function categoryRoutes(app: App): void {
  projectRoute(app, {
    method: 'PUT',
    url: '/channels',
    operationId: 'saveCategoryDeliveryConfig',
    summary: 'Save on which channels a category goes out',
    description:
      'Replaces the config with this key. A category without one goes out on every channel that the project has set up. What users have switched off stays off, unless the category is critical.',
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
    summary: 'List the configs of the categories, those first saved last first',
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
      return rawJson(`{"data":[${list.data.join(',')}],"links":${JSON.stringify(list.links)}}`);
    },
  });

  projectRoute(app, {
    method: 'GET',
    url: '/channels/:key',
    operationId: 'getCategoryDeliveryConfig',
    summary: 'Get the config of a category',
    tags,
    params: ByKey,
    reply: { 200: CategoryConfig },
    async handler({ project, params, context }) {
      const row = await getCategory(context.db, project.id, params.key);
      if (row === undefined) throw new ClientError('not_found');
      return rawJson(row.config);
    },
  });

  projectRoute(app, {
    method: 'DELETE',
    url: '/channels/:key',
    operationId: 'deleteCategoryDeliveryConfig',
    summary: 'Delete the config of a category',
    description: 'The category then goes out on every channel that the project has set up.',
    tags,
    params: ByKey,
    reply: { 204: NoContent },
    async handler({ project, params, context }) {
      if (!(await deleteCategory(context, project.id, params.key))) throw new ClientError('not_found');
    },
  });
}

type CallContext = Call<unknown, unknown, unknown>['context'];

/** The place in the list that a key names, or an id that stood in `links`. */
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
