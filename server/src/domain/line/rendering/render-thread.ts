import type { PreviewTemplate, TemplatePreview } from '../../../contract/template.ts';
import { ConditionError } from '../../../lib/expression.ts';
import { RenderingThread } from '../../../lib/rendering-thread.ts';
import { renderQuickly, SlowRendering, TemplateError } from '../../../lib/template.ts';
import type { Sender } from '../../setup/projects/sender.ts';
import type { PackedPart } from '../../setup/templates/parts.ts';
import type {
  MessageParts,
  MessageTemplate,
  RenderedTexts,
  SharedTexts,
  TemplateData,
} from './message-template.ts';

/** What the thread renders. */
export type RenderTask = { preview: PreviewTask } | { texts: TextsTask };

/** The texts of a template on a channel. */
export interface TextsTask extends MessageParts {
  locale: string;
  channel: string;
  data: TemplateData;
}

/** The texts, or why they cannot be rendered. */
export type TextsResult = { texts: RenderedTexts } | { problem: string };

/** What a preview is rendered from. */
export interface PreviewTask {
  key: string;
  /** The template with all that it uses. */
  packed: readonly PackedPart[];
  defaultLocale: string | null;
  project: TemplateData['project'];
  sender: Sender;
  /** The public address of the server. */
  base: string;
  preview: PreviewTemplate;
}

/** The preview, or why the template cannot be rendered; neither if the project has no such message. */
export interface PreviewResult {
  preview?: TemplatePreview;
  problem?: string;
}

/** What waits for texts. */
type Source = 'broadcast' | 'inbox' | 'delivery' | 'preview';

const thread = new RenderingThread<Source, RenderTask, PreviewResult | TextsResult>(
  new URL('./render-thread-main.ts', import.meta.url),
);

/**
 * Renders the texts of a channel, in a thread if the event loop would wait for too long. Throws
 * TemplateError. `shared` is that of MessageTemplate.
 */
export async function renderTexts(
  source: Exclude<Source, 'preview'>,
  template: MessageTemplate,
  { channel, data, shared }: { channel: string; data: TemplateData; shared?: SharedTexts },
): Promise<RenderedTexts> {
  try {
    return renderQuickly(() => template.render(channel, data, shared));
  } catch (error) {
    if (!(error instanceof SlowRendering)) throw error;
  }
  const texts = { ...template.parts, locale: template.locale, channel, data };
  const result = (await thread.run(source, { texts }).catch((error: unknown) => {
    // The copy has all that texts may read, also attributes that are too large.
    throw error instanceof ConditionError ? new TemplateError(error.message) : error;
  })) as TextsResult;
  if ('problem' in result) throw new TemplateError(result.problem);
  if (shared !== undefined) template.share(channel, result.texts, shared);
  return result.texts;
}

/** Renders a preview in the thread. Throws TemplateError if the memory was not enough. */
export function renderInThread(preview: PreviewTask): Promise<PreviewResult> {
  const transfer = preview.packed.map(({ content }) => content.buffer as ArrayBuffer);
  return thread.run('preview', { preview }, transfer) as Promise<PreviewResult>;
}
