import { TemplateError } from '../../../lib/template.ts';
import { serveTasks } from '../../../lib/work-thread.ts';
import { MessageTemplate } from './message-template.ts';
import { renderPreview } from './render-preview.ts';
import type { RenderTask, TextsResult, TextsTask } from './render-thread.ts';

// The thread that renders slow texts, and previews: see render-thread.ts.
serveTasks(async (task: RenderTask) => ({
  result: await ('preview' in task ? renderPreview(task.preview) : renderTexts(task.texts)),
}));

async function renderTexts({ message, parts, locale, channel, data }: TextsTask): Promise<TextsResult> {
  const template = await MessageTemplate.open({ message, parts }, locale);
  try {
    return { texts: template.render(channel, data) };
  } catch (error) {
    if (error instanceof TemplateError) return { problem: error.message };
    throw error;
  }
}
