import { ProjectRecord, ProjectSettings, SaveProject } from '../../contract/project.ts';
import { saveProjectSettings } from '../../domain/setup/projects/save-settings.ts';
import { type App, projectRoute } from '../route.ts';

const tags: [string] = ['Project'];

/** Registers `/project`. */
export function projectRoutes(app: App): void {
  projectRoute(app, {
    method: 'GET',
    url: '/project',
    operationId: 'getProject',
    summary: 'Get the project of the token',
    description: 'Returns the id, the name, the public API key and the settings of the project.',
    tags,
    reply: { 200: ProjectRecord },
    handler: async ({ project }) => ({
      id: project.id,
      name: project.name,
      api_key: project.apiKey,
      display_name: project.displayName,
      logo_url: project.logoUrl,
      default_locale: project.defaultLocale,
      hmac_required: project.hmacRequired,
    }),
  });

  projectRoute(app, {
    method: 'PUT',
    url: '/project',
    operationId: 'saveProject',
    summary: 'Save the settings of the project',
    description: 'Applies to requests that arrive from then on, at the latest within seconds.',
    tags,
    body: SaveProject,
    reply: { 200: ProjectSettings },
    handler: ({ project, body, context }) => saveProjectSettings(context, project.id, body),
  });
}
