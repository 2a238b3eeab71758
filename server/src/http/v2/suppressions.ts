import { Type } from 'typebox';
import { Id, NoContent } from '../../contract/common.ts';
import {
  SaveSuppression,
  Suppression,
  SuppressionListQuery,
  SuppressionPage,
} from '../../contract/suppression.ts';
import { addSuppression } from '../../domain/ground/suppressions/add.ts';
import { liftSuppression } from '../../domain/ground/suppressions/lift.ts';
import { getSuppression, listSuppressions, toSuppression } from '../../domain/ground/suppressions/list.ts';
import { ClientError } from '../../errors.ts';
import { type App, projectRoute } from '../route.ts';

const tags: [string] = ['Suppressions'];
const ById = Type.Object({ suppression_id: Id });

/** The addresses that the project sends nothing to: adding, reading, lifting them. */
export function suppressionRoutes(app: App): void {
  projectRoute(app, {
    method: 'PUT',
    url: '/suppressions',
    operationId: 'saveSuppression',
    summary: 'Suppress an address, or change what is said about one',
    description:
      'Nothing is sent to it any more: deliveries to it are skipped with the code `address_suppressed`. Providers’ refusals, bounces and complaints ' +
      'do the same by themselves.',
    tags,
    body: SaveSuppression,
    reply: { 200: Suppression },
    async handler({ project, body, context }) {
      return toSuppression(await addSuppression(context, project.id, body));
    },
  });

  projectRoute(app, {
    method: 'GET',
    url: '/suppressions',
    operationId: 'listSuppressions',
    summary: 'List the suppressed addresses, newest first',
    tags,
    query: SuppressionListQuery,
    reply: { 200: SuppressionPage },
    async handler({ project, query, paginate, context }) {
      return paginate(query, (cursor) => listSuppressions(context, project.id, query, cursor), toSuppression);
    },
  });

  projectRoute(app, {
    method: 'GET',
    url: '/suppressions/:suppression_id',
    operationId: 'getSuppression',
    summary: 'Get a suppressed address',
    tags,
    params: ById,
    reply: { 200: Suppression },
    async handler({ project, params, context }) {
      const row = await getSuppression(context.db, project.id, params.suppression_id);
      if (row === undefined) throw new ClientError('not_found');
      return toSuppression(row);
    },
  });

  projectRoute(app, {
    method: 'DELETE',
    url: '/suppressions/:suppression_id',
    operationId: 'liftSuppression',
    summary: 'Lift a suppression',
    description: 'The address is delivered to again, with what is sent from then on.',
    tags,
    params: ById,
    reply: { 204: NoContent },
    async handler({ project, params, context }) {
      if (!(await liftSuppression(context, project.id, params.suppression_id.toLowerCase())))
        throw new ClientError('not_found');
    },
  });
}
