import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Catalogue } from '../domain/ground/catalogues/en.ts';
import { languageFor } from '../domain/ground/catalogues/languages.ts';
import { withValues } from '../domain/ground/catalogues/with-values.ts';
import { readUnsubscribeToken, type Unsubscription } from '../domain/ground/links/unsubscribe-link.ts';
import { localeOf } from '../domain/people/users/locale.ts';
import { savePreferences } from '../domain/setup/preferences/save.ts';
import { senderOf } from '../domain/setup/projects/sender.ts';
import { acceptedLocales } from '../lib/locale.ts';
import { sendBrokenLink } from './broken-link.ts';
import { type Page, sendPage } from './page.ts';
import type { App } from './route.ts';

// Enough for a form of one field, also as multipart.
const BODY_LIMIT_BYTES = 16 * 1024;

/**
 * The page behind the unsubscribe link of an e-mail. Looking at it changes nothing, because scanners follow
 * links; its button, and the one-click request of mail programs (RFC 8058), switch the category off, without
 * login or cookies.
 */
export async function unsubscribePage(app: App): Promise<void> {
  const { fastify, context, limits } = app;
  await fastify.register((scope, _options, done) => {
    // Any content type, because mail providers differ and only the path matters.
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser('*', { parseAs: 'string' }, (_request, body, done) => done(null, body));

    // Valid links are limited by user and others by address, because mail providers send the requests of all
    // users from few addresses.
    const read = async (request: FastifyRequest, reply: FastifyReply) => {
      limits.checkStranger(request, reply);
      const { token } = request.params as { token: string };
      const link = await readUnsubscribeToken(context.projects, token);
      await (link === undefined ? limits.stranger(request, reply) : limits.linked(link.userId, reply));
      return link;
    };

    const isRequired = async ({ projectId, category }: Unsubscription) =>
      (await context.categories.of(projectId)).configured.get(category ?? '')?.critical === true;

    /** Shows a page in the language of the user, else of the browser, else of the project. */
    const show = async (
      { headers }: FastifyRequest,
      reply: FastifyReply,
      link: Unsubscription,
      { status, kind }: { status: number; kind: Kind },
    ) => {
      const [project, locale] = await Promise.all([
        context.projects.byId(link.projectId),
        localeOf(context.db, link.projectId, link.userId),
      ]);
      const accepted = acceptedLocales(headers['accept-language']);
      const language = languageFor([locale, ...accepted, project?.defaultLocale]);
      const page = pageOf(kind, link, language.texts);
      return sendPage(reply, status, language, { ...page, ...(project && { sender: senderOf(project) }) });
    };

    scope.get(
      '/unsubscribe/:token',
      { schema: { hide: true }, config: { operationId: 'showUnsubscribe', secretPath: true } },
      async (request, reply) => {
        const link = await read(request, reply);
        if (link === undefined) return sendBrokenLink(request, reply);
        const kind = (await isRequired(link)) ? 'required' : 'unsubscribe';
        return show(request, reply, link, { status: 200, kind });
      },
    );

    scope.post(
      '/unsubscribe/:token',
      {
        schema: { hide: true },
        config: { operationId: 'unsubscribe', secretPath: true },
        bodyLimit: BODY_LIMIT_BYTES,
      },
      async (request, reply) => {
        const link = await read(request, reply);
        if (link === undefined) return sendBrokenLink(request, reply);
        // The link is older than the setting `critical`. The status shows mail programs that nothing changed.
        // An earlier opt-out stays, and applies again if the category is no longer critical.
        if (await isRequired(link)) return show(request, reply, link, { status: 422, kind: 'required' });
        const enabled =
          typeof request.body === 'string' && new URLSearchParams(request.body).get('again') === 'yes';
        const { projectId, userId, channel, category } = link;
        const preferences = [{ category, channel, enabled }];
        await savePreferences(context, { projectId, userId, preferences });
        return show(request, reply, link, { status: 200, kind: enabled ? 'subscribed' : 'unsubscribed' });
      },
    );
    done();
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
