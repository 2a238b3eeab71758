import type { Config } from '../../../config.ts';
import type { PreviewTemplate, TemplatePreview } from '../../../contract/template.ts';
import type { Queryable } from '../../../db/client.ts';
import { ClientError } from '../../../errors.ts';
import { Limiter } from '../../../lib/limiter.ts';
import { TemplateError } from '../../../lib/template.ts';
import type { Project } from '../../setup/projects/cache.ts';
import { senderOf } from '../../setup/projects/sender.ts';
import { loadPackedParts } from '../../setup/templates/parts.ts';
import { projectData } from './message-template.ts';
import { type PreviewResult, type PreviewTask, renderInThread } from './render-thread.ts';

// A preview takes up to half a second of the thread.
const MAX_WAITING = 20;
// What a preview needs is loaded when its turn comes, so that those that wait hold nothing.
const oneAtATime = new Limiter({ maxCount: 1, maxWeight: 1 });

/**
 * Renders a template for a channel as a delivery does, in a thread of its own. Returns undefined if the
 * project has no such message. Throws `validation_failed` if it cannot be rendered with this data.
 */
export async function previewTemplate(
  { db, config }: { db: Queryable; config: Config },
  project: Project,
  key: string,
  preview: PreviewTemplate,
): Promise<TemplatePreview | undefined> {
  if (oneAtATime.waiting >= MAX_WAITING) throw tooMany();
  return oneAtATime.run(1, async () => {
    const parts = await loadPackedParts(db, project.id, [key]);
    if (parts.length === 0) return undefined;
    // Copies, because a part of a buffer cannot be transferred.
    const packed = parts.map(({ content, ...part }) => ({ ...part, content: new Uint8Array(content) }));
    const task: PreviewTask = {
      ...{ key, packed, preview },
      defaultLocale: project.defaultLocale,
      project: projectData(project),
      sender: senderOf(project),
      base: config.PUBLIC_URL ?? `http://${config.HOST}:${config.PORT}`,
    };
    return render(task);
  });
}

async function render(task: PreviewTask): Promise<TemplatePreview | undefined> {
  const result = await renderInThread(task).catch((error: unknown): PreviewResult => {
    if (!(error instanceof TemplateError)) throw error;
    return { problem: error.message };
  });
  if (result.problem === undefined) return result.preview;
  throw new ClientError('validation_failed', [
    `The template ${task.key} cannot be rendered: ${result.problem}`,
  ]);
}

function tooMany(): ClientError {
  const message = 'Too many previews are being rendered. Try again';
  return new ClientError('service_unavailable', [message], { 'retry-after': '5' });
}
