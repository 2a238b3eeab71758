import { languageFor } from '../../domain/ground/catalogues/languages.ts';
import { type PreferencesLink, readPreferencesToken } from '../../domain/ground/links/signed-links.ts';
import { ownTimeZone, timeZoneOf } from '../../domain/setup/delivery-windows/closed-until.ts';
import { saveTimes } from '../../domain/setup/delivery-windows/save.ts';
import { changePreferences } from '../../domain/setup/preferences/change.ts';
import { loadSettings } from '../../domain/setup/preferences/settings.ts';
import { shownCategories } from '../../domain/setup/preferences/shown.ts';
import { senderOf } from '../../domain/setup/projects/sender.ts';
import { acceptedLocales } from '../../lib/locale.ts';
import type { App } from '../route.ts';
import { escaped, sendCard, sendPage } from './page.ts';
import { type Choices, FORM_SCRIPT, FORM_STYLE, formHtml, readForm } from './preferences-form.ts';
import { type LinkRequest, signedPage } from './signed-page.ts';

// A form with the channels of a thousand categories.
const BODY_LIMIT_BYTES = 512 * 1024;
// The query of the address after saving.
const SAVED = 'saved';

/** The page behind the link to the preferences of a user. Looking at it changes nothing. */
export async function preferencesPage(app: App): Promise<void> {
  const { context } = app;

  /** Loads what the page shows, in the language of the user, else of the browser, else of the project. */
  const load = async ({ link, request, reply }: LinkRequest<PreferencesLink>) => {
    const { projectId, category: linked } = link;
    const [project, settings, { windows }] = await Promise.all([
      context.projects.byId(projectId),
      loadSettings(context.db, link),
      context.categories.of(projectId),
    ]);
    const accepted = acceptedLocales(request.headers['accept-language']);
    const locales = [settings?.locale, ...accepted, project?.defaultLocale];
    const language = languageFor(locales);
    const { texts } = language;
    const sender = project && senderOf(project);
    if (settings === undefined) {
      const page = { title: texts.noUserTitle, text: texts.noUserText, ...(sender && { sender }) };
      return { kind: 'gone', respond: () => sendPage(reply, 404, language, page) } as const;
    }
    const [locale = null] = locales.filter((one) => one != null);
    const categories = await shownCategories(context, { projectId, linked }, { ...settings, locale });
    const shown = {
      categories,
      timeZone: timeZoneOf(windows, settings, settings.customAttributes),
      isTimeZoneGuessed: ownTimeZone(settings, settings.customAttributes) === undefined,
      quietHours: settings.quietHours,
    };
    const show = (status: number, { notice = '', sent }: { notice?: string; sent?: Choices } = {}) => {
      const { preferences: title, preferencesText } = texts;
      const intro = `<h1>${escaped(title)}</h1><p>${escaped(preferencesText)}</p>${notice}`;
      const html = intro + formHtml(language, shown, sent);
      return sendCard(reply, status, language, {
        title,
        html,
        sender,
        style: FORM_STYLE,
        script: FORM_SCRIPT,
      });
    };
    return { kind: 'shown', categories, texts, show } as const;
  };

  await signedPage(app, {
    path: '/preferences',
    read: (token) => readPreferencesToken(context.projects, token),
    bodyLimitBytes: BODY_LIMIT_BYTES,
    get: {
      operationId: 'showPreferences',
      async respond(given) {
        const page = await load(given);
        if (page.kind === 'gone') return page.respond();
        const isSaved = SAVED in (given.request.query as object);
        return page.show(200, isSaved ? { notice: noticeHtml('status', page.texts.preferencesSaved) } : {});
      },
    },
    post: {
      operationId: 'savePreferencesOfLink',
      async respond({ form, ...given }) {
        const page = await load(given);
        if (page.kind === 'gone') return page.respond();
        const sent = readForm(form);
        if (!sent.isValid)
          return page.show(422, { notice: noticeHtml('alert', page.texts.quietProblem), sent });
        // A category may have been deleted, or become critical, since the form was shown.
        const open = new Set(
          page.categories.flatMap(({ key, required, channels }) =>
            required ? [] : channels.map(({ name }) => `${key} ${name}`),
          ),
        );
        const changed = sent.changed.filter(({ key, channel }) => open.has(`${key} ${channel}`));
        await changePreferences(context, given.link, changed);
        await saveTimes(context, given.link, sent.times);
        // Back cannot show the response to a POST that is not stored. The address also fits behind a proxy.
        return given.reply.redirect(`?${SAVED}`, 303);
      },
    },
  });
}

function noticeHtml(role: 'alert' | 'status', text: string): string {
  return `<p class="notice" role="${role}" tabindex="-1" autofocus>${escaped(text)}</p>`;
}
