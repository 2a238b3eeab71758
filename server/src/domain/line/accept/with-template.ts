import type { NewBroadcast } from '../../../contract/broadcast.ts';
import type { Queryable } from '../../../db/client.ts';
import { ClientError } from '../../../errors.ts';
import { TemplateError } from '../../../lib/template.ts';
import type { ProjectCache } from '../../setup/projects/cache.ts';
import { localeIn } from '../../setup/templates/locales.ts';
import { loadParts } from '../../setup/templates/parts.ts';
import type { TemplateReference } from '../broadcasts/stored-broadcast.ts';
import { MessageTemplate, projectData, type TemplateData } from '../rendering/message-template.ts';
import { renderTexts } from '../rendering/render-thread.ts';

/** A broadcast with its template, and with the texts that it shows without a user. */
export interface WithTemplate {
  broadcast: NewBroadcast;
  template: TemplateReference;
}

/**
 * Names the newest versions of the template of a broadcast, and of all that it uses. Throws
 * `validation_failed` if the project has no such message.
 */
export async function withTemplate(
  { db, projects }: { db: Queryable; projects: ProjectCache },
  projectId: string,
  broadcast: NewBroadcast,
  { key, data = null }: NonNullable<NewBroadcast['template']>,
): Promise<WithTemplate> {
  // In one statement, so that the versions are of the same moment.
  const parts = await loadParts(db, projectId, [key]);
  const stored = parts.get(key);
  if (stored?.kind !== 'message')
    throw new ClientError('validation_failed', [
      `Param 'template.key' must be the key of a message template: the project has no ${key}`,
    ]);
  const { version, content: message } = stored;
  const used = [...parts.values()].filter((part) => part !== stored);
  const uses = Object.fromEntries(used.map((part) => [part.key, part.version]));
  const project = await projects.byId(projectId);
  if (project === undefined) throw new Error('a broadcast of a project that does not exist');
  const texts = await MessageTemplate.open({ message, parts }, localeIn(message, project.defaultLocale));
  const shown = await withoutUser(texts, { user: null, data: data ?? {}, project: projectData(project) });
  return {
    broadcast: { ...broadcast, ...(shown ?? { title: key }) },
    template: { key, version, data, uses },
  };
}

/** The texts without a user; undefined if there are none, such as a title that is a name alone. */
async function withoutUser(
  texts: MessageTemplate,
  data: Omit<TemplateData, 'unsubscribe_url' | 'preferences_url'>,
): Promise<Pick<NewBroadcast, 'title' | 'content' | 'action_url'> | undefined> {
  try {
    const { title, content, actionUrl } = await renderTexts('broadcast', texts, {
      channel: 'in_app',
      data: { ...data, unsubscribe_url: null, preferences_url: null },
    });
    return { title, content, action_url: actionUrl };
  } catch (error) {
    if (error instanceof TemplateError) return undefined;
    throw error;
  }
}
