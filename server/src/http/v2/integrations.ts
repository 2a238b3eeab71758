import { type Static, type TObject, type TUnsafe, Type } from 'typebox';
import { PageQuery, page } from '../../contract/common.ts';
import {
  anyIntegrationPage,
  EmptyObject,
  IntegrationQuery,
  integrationRecord,
  SaveIntegrationQuery,
  shownConfig,
} from '../../contract/integration.ts';
import { privateHostProblems, rejectPrivateHosts } from '../../domain/ground/requests/private-hosts.ts';
import { deleteIntegrations } from '../../domain/setup/integrations/delete.ts';
import { listIntegrations, type SavedIntegration } from '../../domain/setup/integrations/list.ts';
import { saveIntegration } from '../../domain/setup/integrations/save.ts';
import { verifyIntegration } from '../../domain/setup/integrations/verify.ts';
import { ClientError } from '../../errors.ts';
import type { Cursor } from '../../lib/cursor.ts';
import { pascalCase } from '../../lib/pascal-case.ts';
import { integrations, wireNameOf } from '../../providers/index.ts';
import type { Integration } from '../../providers/provider.ts';
import { rawJson } from '../reply.ts';
import { type App, projectRoute } from '../route.ts';

const tags: [string] = ['Integrations'];
const all = Object.values(integrations) as Integration[];

/** Registers `/integrations`, and `/integrations/<provider>` for every provider. */
export function integrationRoutes(app: App): void {
  const brand = app.context.config.BRAND;
  projectRoute(app, {
    method: 'GET',
    url: '/integrations',
    operationId: 'listIntegrations',
    summary: 'List the integrations of all providers, newest first',
    description: 'Each integration has its config with all secrets, and a `state` while it is paused.',
    tags,
    query: PageQuery,
    reply: {
      200: anyIntegrationPage(all.map((one) => record(one, brand))),
    },
    async handler({ project, query, paginate, context }) {
      const list = (cursor: Cursor) => listIntegrations(context, { projectId: project.id }, cursor);
      return rawJson(JSON.stringify(await paginate(query, list, asRecord(brand))));
    },
  });
  for (const integration of all) routesOf(app, integration);
}

function routesOf(app: App, integration: Integration): void {
  const { name: provider, wireName = provider, docs, hosts = [] } = integration;
  const brand = app.context.config.BRAND;
  const name = pascalCase(provider);
  const url = `/integrations/${wireName}`;
  const called = wireNameOf(provider, brand);

  projectRoute(app, {
    method: 'PUT',
    url,
    operationId: `save${name}Integration`,
    summary: `Save the ${called} integration`,
    description:
      `See ${docs}. Replaces the saved config; with an \`id\` of your choice (a UUID), a project can have ` +
      'several integrations of one provider. A channel uses the integration that was first saved, and the ' +
      'next one when it fails. Saving an integration again keeps its place; delete and save it to move it ' +
      'to the end.',
    tags,
    query: SaveIntegrationQuery,
    body: taken(integration),
    alsoWrong: ({ body }) => privateHostProblems(app.context, hosts, body),
    reply: { 200: shownConfig(integration) },
    async handler({ project, query: { id, verify }, body, context }) {
      await rejectPrivateHosts(context, hosts, body);
      if (verify) await verifyIntegration(context, integration, body);
      const stored = integration.complete?.(body) ?? body;
      const request = { projectId: project.id, provider, config: stored, ...lowerCased(id) };
      if ((await saveIntegration(context, request)) === undefined) throw new ClientError('not_found');
      context.wake('wake_waiting');
      return rawJson(JSON.stringify(stored));
    },
  });

  projectRoute(app, {
    method: 'GET',
    url,
    operationId: `list${name}Integrations`,
    summary: `List the ${called} integrations, newest first`,
    description: 'Each integration has its config with all secrets, and a `state` while it is paused.',
    tags,
    query: PageQuery,
    reply: { 200: page(record(integration, brand)) },
    async handler({ project, query, paginate, context }) {
      const list = (cursor: Cursor) => listIntegrations(context, { projectId: project.id, provider }, cursor);
      return rawJson(JSON.stringify(await paginate(query, list, asRecord(brand))));
    },
  });

  projectRoute(app, {
    method: 'DELETE',
    url,
    operationId: `delete${name}Integration`,
    summary: `Delete the ${called} integration`,
    description:
      'Deletes the integration with this `id`, or without an `id` all integrations of the provider. ' +
      'Messages then use the next integration of the channel, or fail with `no_integration` if there is ' +
      'none.',
    tags,
    query: IntegrationQuery,
    reply: { 200: EmptyObject },
    async handler({ project, query: { id }, context }) {
      const request = { projectId: project.id, provider, ...lowerCased(id) };
      if (!(await deleteIntegrations(context, request))) throw new ClientError('not_found');
      return {};
    },
  });
}

/** The config as requests have it. */
export function taken<Schema extends TObject>(integration: Integration<Schema>): TUnsafe<Static<Schema>> {
  const { name, config, complete } = integration;
  const title = `${pascalCase(name)}IntegrationConfig${complete === undefined ? '' : 'Input'}`;
  return Type.Unsafe<Static<Schema>>({ ...config, title });
}

function record(integration: Integration, brand: string) {
  const { name, channel } = integration;
  return integrationRecord(`${pascalCase(name)}Integration`, {
    name: wireNameOf(name, brand),
    config: shownConfig(integration),
    delivers: channel !== undefined,
  });
}

function asRecord(brand: string) {
  return ({ provider, ...saved }: SavedIntegration) => ({ name: wireNameOf(provider, brand), ...saved });
}

function lowerCased(id: string | undefined): { id?: string } {
  return id === undefined ? {} : { id: id.toLowerCase() };
}
