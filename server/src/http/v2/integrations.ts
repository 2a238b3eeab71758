import { type Static, type TObject, Type } from 'typebox';
import { PageQuery } from '../../contract/common.ts';
import { EmptyObject, IntegrationQuery, integrationPage } from '../../contract/integration.ts';
import { deleteIntegrations } from '../../domain/integrations/delete.ts';
import { listIntegrations } from '../../domain/integrations/list.ts';
import { saveIntegration } from '../../domain/integrations/save.ts';
import { ClientError } from '../../errors.ts';
import { beyond } from '../../lib/cursor.ts';
import { integrations } from '../../providers/index.ts';
import type { Integration } from '../../providers/provider.ts';
import { rawJson } from '../reply.ts';
import { type App, projectRoute } from '../route.ts';

/** PUT, GET and DELETE of every integration in the list of providers. */
export function integrationRoutes(app: App): void {
  for (const integration of Object.values(integrations)) routesOf(app, integration as Integration);
}

function routesOf<Config extends TObject>(app: App, integration: Integration<Config>): void {
  const { name: provider, docs, config } = integration;
  const complete = integration.complete ?? ((given: Static<Config>) => given);
  // A config that is completed lacks nothing when it is shown.
  const shown: TObject =
    integration.complete === undefined
      ? config
      : Type.Required<TObject>(config, { additionalProperties: false });
  const name = provider.replace(/(^|_)([a-z])/g, (_all, _separator, letter: string) => letter.toUpperCase());
  const tags: [string] = ['Integrations'];
  const url = `/integrations/${provider}`;

  projectRoute(app, {
    method: 'PUT',
    url,
    operationId: `save${name}Integration`,
    summary: `Save the ${provider} integration`,
    description: `See ${docs}. Replaces the one that is there. With \`id\` a project can have several of one provider; of those of a channel the one saved first is used, the others when it fails.`,
    tags,
    query: IntegrationQuery,
    body: config,
    reply: { 200: shown },
    async handler({ project, query, body, context }) {
      const stored = complete(body);
      const request = { projectId: project.id, provider, config: stored, ...lowerCased(query) };
      if ((await saveIntegration(context, request)) === undefined) throw new ClientError('not_found');
      return rawJson(JSON.stringify(stored));
    },
  });

  projectRoute(app, {
    method: 'GET',
    url,
    operationId: `list${name}Integrations`,
    summary: `List the ${provider} integrations with their configs`,
    tags,
    query: PageQuery,
    reply: { 200: integrationPage(provider, shown) },
    async handler({ project, query, paginate, context }) {
      const saved = await listIntegrations(context, project.id, provider);
      const list = await paginate(
        query,
        async (cursor) => beyond(saved, cursor),
        (row) => ({ name: provider, ...row }),
      );
      return rawJson(JSON.stringify(list));
    },
  });

  projectRoute(app, {
    method: 'DELETE',
    url,
    operationId: `delete${name}Integration`,
    summary: `Delete the ${provider} integration`,
    description: 'The one with this `id`; without one, all of this provider.',
    tags,
    query: IntegrationQuery,
    reply: { 200: EmptyObject },
    async handler({ project, query, context }) {
      const request = { projectId: project.id, provider, ...lowerCased(query) };
      if (!(await deleteIntegrations(context, request))) throw new ClientError('not_found');
      return {};
    },
  });
}

function lowerCased({ id }: { id?: string }): { id?: string } {
  return id === undefined ? {} : { id: id.toLowerCase() };
}
