import type { Config } from '../../../config.ts';
import type { PreviewTemplate, TemplatePreview } from '../../../contract/template.ts';
import type { Queryable } from '../../../db/client.ts';
import { ClientError } from '../../../errors.ts';
import { canonicalLocale } from '../../../lib/locale.ts';
import { memberOf } from '../../../lib/members.ts';
import { TemplateError } from '../../../lib/template.ts';
import { type Language, languageFor } from '../../ground/catalogues/languages.ts';
import type { Project } from '../../setup/projects/cache.ts';
import { type Sender, senderOf } from '../../setup/projects/sender.ts';
import { localeIn } from '../../setup/templates/locales.ts';
import { loadParts } from '../../setup/templates/parts.ts';
import { finishEmail } from './email.ts';
import { prepareRendered } from './message.ts';
import { MessageTemplate, projectData, type RenderedTexts } from './message-template.ts';

// Gmail clips the HTML of e-mails. Push services reject longer requests, and Teams longer cards.
const MAX_BYTES: Readonly<Record<string, number>> = {
  email: 102_400,
  mobile_push: 4_096,
  web_push: 4_096,
  teams: 28 * 1024,
};

function canonicalOf(locale: unknown): string | null {
  return (typeof locale === 'string' && canonicalLocale(locale)) || null;
}

/**
 * Renders a template for a channel as a delivery does. Returns undefined if the project has no such message.
 * Throws `validation_failed` if it cannot be rendered with this data.
 */
export async function previewTemplate(
  { db, config }: { db: Queryable; config: Config },
  project: Project,
  key: string,
  { channel, locale: given, user, data }: PreviewTemplate,
): Promise<TemplatePreview | undefined> {
  const parts = await loadParts(db, project.id, [key]);
  const message = parts.get(key)?.content;
  if (message?.kind !== 'message') return undefined;
  const locale = canonicalOf(given) ?? canonicalOf(memberOf(user, 'locale'));
  const template = await MessageTemplate.open(
    { message, parts },
    localeIn(message, locale, project.defaultLocale),
  );
  const base = config.PUBLIC_URL ?? `http://${config.HOST}:${config.PORT}`;
  try {
    const rendered = template.render(channel, {
      user: { ...user, locale },
      data: data ?? {},
      project: projectData(project),
      unsubscribe_url: `${base}/unsubscribe/preview`,
      preferences_url: `${base}/preferences/preview`,
    });
    const fixed = {
      language: languageFor([template.locale, locale, project.defaultLocale]),
      sender: senderOf(project),
      unsubscribeUrl: `${base}/unsubscribe/preview`,
      preferencesUrl: `${base}/preferences/preview`,
    };
    const texts = shownOn(channel, rendered, fixed);
    const bytes = bytesOf(channel === 'email' ? [texts.content] : Object.values(texts));
    return { locale: template.locale, ...texts, bytes, max_bytes: MAX_BYTES[channel] ?? null };
  } catch (error) {
    if (!(error instanceof TemplateError)) throw error;
    throw new ClientError('validation_failed', [`The template ${key} cannot be rendered: ${error.message}`]);
  }
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
