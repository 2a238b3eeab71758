import { Type } from 'typebox';
import { described, Id, NoContent } from '../../contract/common.ts';
import {
  SaveSuppression,
  Suppression,
  SuppressionListQuery,
  SuppressionPage,
} from '../../contract/suppression.ts';
import { addSuppression, liftSuppression } from '../../domain/ground/suppressions/change.ts';
import { getSuppression, listSuppressions, toSuppression } from '../../domain/ground/suppressions/list.ts';
import { ClientError } from '../../errors.ts';
import { found } from '../found.ts';
import { type App, projectRoute } from '../route.ts';

const tags: [string] = ['Suppressions'];
const ById = Type.Object({ suppression_id: described(Id, 'The id of the suppression.') });

/** Registers `/suppressions`: the addresses that get no messages. */
export function suppressionRoutes(app: App): void {
  projectRoute(app, {
    method: 'PUT',
    url: '/suppressions',
    operationId: 'saveSuppression',
    summary: 'Suppress an address or change a suppression',
    description:
      'Deliveries to a suppressed address are skipped with the code `address_suppressed`. Rejections, ' +
      'bounces and complaints that providers report suppress addresses automatically. If the address is ' +
      'suppressed already, the stronger reason is kept.',
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
    description: 'Filter them by kind and reason, or find one address with `query`.',
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
    summary: 'Get a suppression',
    description: 'Returns one suppressed address with the reason and what the provider reported.',
    tags,
    params: ById,
    reply: { 200: Suppression },
    async handler({ project, params, context }) {
      const row = found(await getSuppression(context.db, project.id, params.suppression_id));
      return toSuppression(row);
    },
  });

  projectRoute(app, {
    method: 'DELETE',
    url: '/suppressions/:suppression_id',
    operationId: 'liftSuppression',
    summary: 'Lift a suppression',
    description:
      'Deletes the suppression: broadcasts that are sent from then on reach the address. Skipped ' +
      'deliveries can be replayed. A later bounce or complaint suppresses the address again.',
    tags,
    params: ById,
    reply: { 204: NoContent },
    async handler({ project, params, context }) {
      if (!(await liftSuppression(context, project.id, params.suppression_id.toLowerCase())))
        throw new ClientError('not_found');
    },
  });
}
