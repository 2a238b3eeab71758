import type { PreviewTemplate, TemplatePreview } from '../../../contract/template.ts';
import { ClientError } from '../../../errors.ts';
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
  /** The number of the MessageTemplate in this process. */
  id: number;
  locale: string;
  channel: string;
  data: TemplateData;
}

/** The texts, or why they cannot be rendered; and for how long the thread has worked. */
export type TextsResult = { workedMs: number } & ({ texts: RenderedTexts } | { problem: string });

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

/** What the texts are for. */
type Kind = 'broadcast' | 'inbox' | 'delivery' | 'preview';

const thread = new RenderingThread<Kind, RenderTask, PreviewResult | TextsResult>(
  new URL('./render-thread-main.ts', import.meta.url),
);
// Each waiting request has its data in memory.
const MAX_BROADCASTS = 100;

/** How often the texts of a template were slow, one time after the other. */
const slow = new WeakMap<MessageTemplate, number>();
// Then the event loop does not try first. Not after the first time: texts that are the same for all users are
// known then.
const OFTEN = 2;
// Work of the thread that the event loop could have done.
const QUICK_MS = 10;

/**
 * Renders the texts of a channel, in a thread if the event loop would wait for too long. Throws
 * TemplateError. `shared` is that of MessageTemplate; `onWorked` is called with the milliseconds of work.
 */
export async function renderTexts(
  kind: Exclude<Kind, 'preview'>,
  template: MessageTemplate,
  {
    channel,
    data,
    shared,
    onWorked = () => {},
  }: { channel: string; data: TemplateData; shared?: SharedTexts; onWorked?: (ms: number) => void },
): Promise<RenderedTexts> {
  const beganMs = performance.now();
  const times = slow.get(template) ?? 0;
  try {
    if (times < OFTEN) {
      const rendered = renderQuickly(() => template.render(channel, data, shared));
      slow.delete(template);
      return rendered;
    }
  } catch (error) {
    if (!(error instanceof SlowRendering)) throw error;
  } finally {
    onWorked(performance.now() - beganMs);
  }
  if (kind === 'broadcast' && thread.waiting(kind) >= MAX_BROADCASTS) throw tooMany();
  const { id, parts, locale } = template;
  const texts = { id, ...parts, locale, channel, data };
  const result = await thread.run(kind, { texts }).catch((error: unknown) => {
    // The copy would have had all that texts may read, also attributes that are too large.
    if (error instanceof ConditionError) return undefined;
    throw error;
  });
  if (result === undefined) return template.render(channel, data, shared);
  const { workedMs, ...rendered } = result as TextsResult;
  onWorked(workedMs);
  if (workedMs > QUICK_MS) slow.set(template, times + 1);
  else slow.delete(template);
  if ('problem' in rendered) throw new TemplateError(rendered.problem);
  if (shared !== undefined) template.share(channel, rendered.texts, shared);
  return rendered.texts;
}

function tooMany(): ClientError {
  const message = 'Too many broadcasts with slow templates are being accepted. Try again';
  return new ClientError('service_unavailable', [message], { 'retry-after': '5' });
}

/** Renders a preview in the thread. Throws TemplateError if the memory was not enough. */
export function renderInThread(preview: PreviewTask): Promise<PreviewResult> {
  const transfer = preview.packed.map(({ content }) => content.buffer as ArrayBuffer);
  return thread.run('preview', { preview }, transfer) as Promise<PreviewResult>;
}
