import type { TemplatePreview } from '../../../contract/template.ts';
import { canonicalLocale } from '../../../lib/locale.ts';
import { memberOf } from '../../../lib/members.ts';
import { TemplateError } from '../../../lib/template.ts';
import { type Language, languageFor } from '../../ground/catalogues/languages.ts';
import type { Sender } from '../../setup/projects/sender.ts';
import { localeIn } from '../../setup/templates/locales.ts';
import { unpackParts } from '../../setup/templates/parts.ts';
import { finishEmail } from './email.ts';
import { prepareRendered } from './message.ts';
import { MessageTemplate, type RenderedTexts } from './message-template.ts';
import type { PreviewResult, PreviewTask } from './render-thread.ts';

// Gmail clips the HTML of e-mails. Push services reject longer requests, and Teams longer cards.
const MAX_BYTES: Readonly<Record<string, number>> = {
  email: 102_400,
  mobile_push: 4_096,
  web_push: 4_096,
  teams: 28 * 1024,
};

/** Renders a preview. It may take half a second. */
export async function renderPreview({ key, packed, ...task }: PreviewTask): Promise<PreviewResult> {
  const { defaultLocale, project, sender, base } = task;
  const { channel, locale: given, user, data } = task.preview;
  const parts = unpackParts(packed);
  const message = parts.get(key)?.content;
  if (message?.kind !== 'message') return {};
  const locale = canonicalOf(given) ?? canonicalOf(memberOf(user, 'locale'));
  const template = await MessageTemplate.open({ message, parts }, localeIn(message, locale, defaultLocale));
  try {
    const rendered = template.render(channel, {
      user: { ...user, locale },
      data: data ?? {},
      project,
      unsubscribe_url: `${base}/unsubscribe/preview`,
      preferences_url: `${base}/preferences/preview`,
    });
    const texts = shownOn(channel, rendered, {
      language: languageFor([template.locale, locale, defaultLocale]),
      sender,
      unsubscribeUrl: `${base}/unsubscribe/preview`,
      preferencesUrl: `${base}/preferences/preview`,
    });
    const bytes = bytesOf(channel === 'email' ? [texts.content] : Object.values(texts));
    const max_bytes = MAX_BYTES[channel] ?? null;
    return { preview: { locale: template.locale, ...texts, bytes, max_bytes } };
  } catch (error) {
    if (!(error instanceof TemplateError)) throw error;
    return { problem: error.message };
  }
}

function canonicalOf(locale: unknown): string | null {
  return (typeof locale === 'string' && canonicalLocale(locale)) || null;
}

function bytesOf(texts: readonly (string | null)[]): number {
  return texts.reduce((sum, text) => sum + Buffer.byteLength(text ?? ''), 0);
}

type Shown = Pick<TemplatePreview, 'title' | 'content' | 'action_url'> & { text?: string };

function shownOn(
  channel: string,
  rendered: RenderedTexts,
  {
    unsubscribeUrl,
    preferencesUrl,
    ...fixed
  }: { language: Language; sender: Sender; unsubscribeUrl: string; preferencesUrl: string },
): Shown {
  const { title, content, actionUrl, has } = rendered;
  if (channel === 'in_app') return { title, content, action_url: actionUrl };
  const prepared = prepareRendered(channel, rendered);
  if (!('email' in prepared)) return { title, content: prepared.text, action_url: actionUrl };
  const { subject, html, text } = finishEmail(prepared.email, {
    ...fixed,
    unsubscribeUrl: has.unsubscribeUrl ? undefined : unsubscribeUrl,
    preferencesUrl: has.preferencesUrl ? undefined : preferencesUrl,
  });
  return { title: subject, content: html, action_url: actionUrl, text };
}
