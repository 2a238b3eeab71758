import type { Catalogue } from '../../domain/ground/catalogues/en.ts';
import { languageFor, withValues } from '../../domain/ground/catalogues/languages.ts';
import { readUnsubscribeToken, type Unsubscription } from '../../domain/ground/links/signed-links.ts';
import { getUser } from '../../domain/people/users/get.ts';
import { savePreferences } from '../../domain/setup/preferences/save.ts';
import { senderOf } from '../../domain/setup/projects/sender.ts';
import { acceptedLocales } from '../../lib/locale.ts';
import type { App } from '../route.ts';
import { type Page, sendPage } from './page.ts';
import { type LinkRequest, signedPage } from './signed-page.ts';

// Enough for a form of one field, also as multipart.
const BODY_LIMIT_BYTES = 16 * 1024;

/**
 * The page behind the unsubscribe link of an e-mail. Looking at it changes nothing, because scanners follow
 * links; its button, and the one-click request of mail programs (RFC 8058), switch the category off.
 */
export async function unsubscribePage(app: App): Promise<void> {
  const { context } = app;

  const isRequired = async ({ projectId, category }: Unsubscription) =>
    (await context.categories.of(projectId)).configured.get(category ?? '')?.critical === true;

  /** Shows a page in the language of the user, else of the browser, else of the project. */
  const show = async (
    { link, request, reply }: LinkRequest<Unsubscription>,
    { status, kind }: { status: number; kind: Kind },
  ) => {
    const [project, user] = await Promise.all([
      context.projects.byId(link.projectId),
      getUser(context.db, link.projectId, link.userId),
    ]);
    const accepted = acceptedLocales(request.headers['accept-language']);
    const language = languageFor([user?.locale, ...accepted, project?.defaultLocale]);
    const page = pageOf(kind, link, language.texts);
    return sendPage(reply, status, language, { ...page, ...(project && { sender: senderOf(project) }) });
  };

  await signedPage(app, {
    path: '/unsubscribe',
    read: (token) => readUnsubscribeToken(context.projects, token),
    bodyLimitBytes: BODY_LIMIT_BYTES,
    get: {
      operationId: 'showUnsubscribe',
      async respond(given) {
        const kind = (await isRequired(given.link)) ? 'required' : 'unsubscribe';
        return show(given, { status: 200, kind });
      },
    },
    post: {
      operationId: 'unsubscribe',
      async respond({ form, ...given }) {
        const { projectId, userId, channel, category } = given.link;
        // The link is older than the setting `critical`. The status shows mail programs that nothing changed.
        // An earlier opt-out stays, and applies again if the category is no longer critical.
        if (await isRequired(given.link)) return show(given, { status: 422, kind: 'required' });
        const enabled = form.get('again') === 'yes';
        const preferences = [{ category, channel, enabled }];
        await savePreferences(context, { projectId, userId, preferences });
        return show(given, { status: 200, kind: enabled ? 'subscribed' : 'unsubscribed' });
      },
    },
  });
}

const UNSUBSCRIBE = { name: 'List-Unsubscribe', value: 'One-Click' };
const RESUBSCRIBE = { name: 'again', value: 'yes' };

type Kind = 'unsubscribe' | 'unsubscribed' | 'subscribed' | 'required';

function pageOf(kind: Kind, { category }: Unsubscription, texts: Catalogue): Page {
  const title = texts[`${kind}Title`];
  const text =
    category === null ? texts[`${kind}Text`] : withValues(texts[`${kind}CategoryText`], { category });
  switch (kind) {
    case 'unsubscribe':
      return { title, text, button: { label: texts.unsubscribe, ...UNSUBSCRIBE } };
    case 'unsubscribed':
      return { title, text, button: { label: texts.subscribeAgain, ...RESUBSCRIBE, quiet: true } };
    case 'subscribed':
      return { title, text, button: { label: texts.unsubscribe, ...UNSUBSCRIBE, quiet: true } };
    case 'required':
      return { title, text };
  }
}
