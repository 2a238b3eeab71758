import type { Config } from '../../../config.ts';
import type { PreviewTemplate, TemplatePreview } from '../../../contract/template.ts';
import type { Queryable } from '../../../db/client.ts';
import { ClientError } from '../../../errors.ts';
import { ThreadEnded, WorkThread } from '../../../lib/work-thread.ts';
import type { Project } from '../../setup/projects/cache.ts';
import { senderOf } from '../../setup/projects/sender.ts';
import { loadPackedParts } from '../../setup/templates/parts.ts';
import { projectData } from './message-template.ts';
import type { PreviewResult, PreviewTask } from './render-preview.ts';

const MAX_HEAP_MB = 512;

// Each of four texts may take 100 ms, as in a delivery, and so may the plain text of the e-mail: in the event
// loop, a request would stop all others for so long.
const thread = new WorkThread<PreviewTask, PreviewResult>(
  new URL('./preview-thread-main.ts', import.meta.url),
  MAX_HEAP_MB,
);

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
  const parts = await loadPackedParts(db, project.id, [key]);
  // Copies, because a part of a buffer cannot be transferred.
  const packed = parts.map(({ content, ...part }) => ({ ...part, content: new Uint8Array(content) }));
  const task: PreviewTask = {
    ...{ key, packed, preview },
    defaultLocale: project.defaultLocale,
    project: projectData(project),
    sender: senderOf(project),
    base: config.PUBLIC_URL ?? `http://${config.HOST}:${config.PORT}`,
  };
  const transfer = packed.map(({ content }) => content.buffer);
  const result = await thread.run(task, transfer).catch((error: unknown) => {
    throw error instanceof ThreadEnded ? outOfMemory() : error;
  });
  if (result.problem === undefined) return result.preview;
  throw new ClientError('validation_failed', [`The template ${key} cannot be rendered: ${result.problem}`]);
}

function outOfMemory(): ClientError {
  const message = 'The server did not have enough memory to render the preview. Try again, or send less';
  return new ClientError('service_unavailable', [message], { 'retry-after': '5' });
}
