import { NoContent } from '../../contract/common.ts';
import {
  NewTemplate,
  PreviewTemplate,
  Template,
  TemplateInPath,
  TemplateListQuery,
  TemplatePage,
  TemplatePreview,
  TemplateVersion,
  TemplateVersionInPath,
  TemplateVersionList,
} from '../../contract/template.ts';
import { isTemplateKey } from '../../contract/template-key.ts';
import { previewTemplate } from '../../domain/line/rendering/preview.ts';
import { examineTemplate } from '../../domain/setup/templates/examine.ts';
import {
  getTemplate,
  listTemplates,
  templateJson,
  templateRecord,
  templateVersions,
} from '../../domain/setup/templates/get.ts';
import { deleteTemplate, restoreVersion, saveTemplate } from '../../domain/setup/templates/save.ts';
import { workflowsWithTemplate } from '../../domain/workflows/definitions/with-template.ts';
import { ClientError } from '../../errors.ts';
import { found } from '../found.ts';
import { versionIn } from '../in-path.ts';
import { rawJson } from '../reply.ts';
import { type App, projectRoute } from '../route.ts';

const tags: [string] = ['Templates'];

/** Registers `/templates`: the texts of notifications, by channel and language. */
export function templateRoutes(app: App): void {
  projectRoute(app, {
    method: 'PUT',
    url: '/templates/:template_key',
    operationId: 'saveTemplate',
    summary: 'Save a template',
    description:
      'Creates the template with this key, or replaces it: new content is a new version. The texts are ' +
      '[Liquid](https://liquidjs.com) and read `user`, `data`, `project`, `unsubscribe_url` and ' +
      '`preferences_url`. Mistakes are reported with their place, and so are unknown variables and ' +
      'partials. The kind of a template cannot be changed. A project can have 1,000 templates with 16 MiB ' +
      'of texts.',
    tags,
    params: TemplateInPath,
    body: NewTemplate,
    alsoWrong: async ({ body }) => (await examineTemplate(body)).problems,
    reply: { 200: Template },
    async handler({ project, params, body, context }) {
      const { template_key: key } = params;
      if (!isTemplateKey(key))
        throw new ClientError('validation_failed', [
          "Param 'template_key' can have the characters A-Z a-z 0-9 _ . - : and at most 255 of them",
        ]);
      return rawJson(templateJson(await saveTemplate(context, project.id, key, body)));
    },
  });

  projectRoute(app, {
    method: 'GET',
    url: '/templates',
    operationId: 'listTemplates',
    summary: 'List the templates, newest first',
    description: 'Returns the templates without their texts.',
    tags,
    query: TemplateListQuery,
    reply: { 200: TemplatePage },
    handler: async ({ project, query, paginate, context }) =>
      paginate(query, (cursor) => listTemplates(context.db, project.id, cursor), templateRecord),
  });

  projectRoute(app, {
    method: 'GET',
    url: '/templates/:template_key',
    operationId: 'getTemplate',
    summary: 'Get a template',
    description: 'Returns the newest version of the template.',
    tags,
    params: TemplateInPath,
    reply: { 200: Template },
    async handler({ project, params, context }) {
      const template = found(await getTemplate(context.db, project.id, keyIn(params)));
      return rawJson(templateJson(template));
    },
  });

  projectRoute(app, {
    method: 'DELETE',
    url: '/templates/:template_key',
    operationId: 'deleteTemplate',
    summary: 'Delete a template',
    description:
      'If the template is created again, its version numbers continue. A layout or a partial that another ' +
      'template uses cannot be deleted, and neither can a template that the newest version of a workflow ' +
      'names.',
    tags,
    params: TemplateInPath,
    reply: { 204: NoContent },
    errors: ['validation_failed'],
    async handler({ project, params, context }) {
      const isDeleted = await deleteTemplate(context, project.id, keyIn(params), workflowsWithTemplate);
      if (!isDeleted) throw new ClientError('not_found');
    },
  });

  projectRoute(app, {
    method: 'GET',
    url: '/templates/:template_key/versions',
    operationId: 'listTemplateVersions',
    summary: 'List the versions of a template',
    description: 'Returns the newest 100 versions, newest first, also of a template that was deleted.',
    tags,
    params: TemplateInPath,
    reply: { 200: TemplateVersionList },
    async handler({ project, params, context }) {
      const versions = await templateVersions.list(context.db, project.id, keyIn(params));
      if (versions.length === 0) throw new ClientError('not_found');
      return {
        items: versions.map((one) => ({ version: one.version, created_at: one.created_at.toISOString() })),
      };
    },
  });

  projectRoute(app, {
    method: 'GET',
    url: '/templates/:template_key/versions/:version',
    operationId: 'getTemplateVersion',
    summary: 'Get a version of a template',
    description: 'Returns the texts of one version, also of a template that was deleted.',
    tags,
    params: TemplateVersionInPath,
    reply: { 200: TemplateVersion },
    async handler({ project, params, context }) {
      const version = found(
        await templateVersions.get(context.db, project.id, keyIn(params), versionIn(params)),
      );
      return rawJson(templateJson(version));
    },
  });

  projectRoute(app, {
    method: 'POST',
    url: '/templates/:template_key/versions/:version/restore',
    operationId: 'restoreTemplateVersion',
    summary: 'Restore a version of a template',
    description:
      'Saves the texts of the version again, as the newest version. Rejected if it uses a template that ' +
      'was deleted.',
    tags,
    params: TemplateVersionInPath,
    reply: { 200: Template },
    errors: ['validation_failed'],
    async handler({ project, params, context }) {
      const template = found(await restoreVersion(context, project.id, keyIn(params), versionIn(params)));
      return rawJson(templateJson(template));
    },
  });

  projectRoute(app, {
    method: 'POST',
    url: '/templates/:template_key/preview',
    operationId: 'previewTemplate',
    summary: 'Preview a template on a channel',
    description:
      'Renders the newest version of a message as a delivery on this channel does, for a user that does ' +
      'not need to exist. Nothing is sent. Layouts and partials have no preview of their own.',
    tags,
    params: TemplateInPath,
    body: PreviewTemplate,
    reply: { 200: TemplatePreview },
    idempotency: 'none',
    async handler({ project, params, body, context }) {
      return found(await previewTemplate(context, project, keyIn(params), body));
    },
  });
}

/** The key in the path. No template has one with other characters. */
function keyIn({ template_key: key }: { template_key: string }): string {
  if (!isTemplateKey(key)) throw new ClientError('not_found');
  return key;
}
