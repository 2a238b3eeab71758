import { allowSlowRendering, TemplateError } from '../../../lib/template.ts';
import { serveTasks } from '../../../lib/work-thread.ts';
import { MessageTemplate } from './message-template.ts';
import { renderPreview } from './render-preview.ts';
import type { RenderTask, TextsResult, TextsTask } from './render-thread.ts';

// The thread that renders slow texts, and previews: see render-thread.ts.
allowSlowRendering();
serveTasks(async (task: RenderTask) => ({
  result: await ('preview' in task ? renderPreview(task.preview) : renderTexts(task.texts)),
}));

/** The last template. A broadcast may have slow texts for each of a thousand users. */
let opened: { id: number; template: MessageTemplate } | undefined;

async function renderTexts({ id, message, parts, locale, channel, data }: TextsTask): Promise<TextsResult> {
  const beganMs = performance.now();
  if (opened?.id !== id) opened = { id, template: await MessageTemplate.open({ message, parts }, locale) };
  const worked = () => ({ workedMs: performance.now() - beganMs });
  try {
    const texts = opened.template.render(channel, data);
    return { texts, ...worked() };
  } catch (error) {
    if (error instanceof TemplateError) return { problem: error.message, ...worked() };
    throw error;
  }
}
