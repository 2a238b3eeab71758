import type { FastifyReply, FastifyRequest } from 'fastify';
import { readUnsubscribeToken, type Unsubscription } from '../domain/ground/links/unsubscribe-link.ts';
import { savePreferences } from '../domain/setup/preferences/save.ts';
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

    scope.get(
      '/unsubscribe/:token',
      { schema: { hide: true }, config: { operationId: 'showUnsubscribe', secretPath: true } },
      async (request, reply) => {
        const link = await read(request, reply);
        if (link === undefined) return sendPage(reply, 404, NOT_FOUND);
        const page = (await isRequired(link)) ? required(link) : question(link);
        return sendPage(reply, 200, page);
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
        if (link === undefined) return sendPage(reply, 404, NOT_FOUND);
        // The link is older than the setting `critical`. The status shows mail programs that nothing changed.
        // An earlier opt-out stays, and applies again if the category is no longer critical.
        if (await isRequired(link)) return sendPage(reply, 422, required(link));
        const enabled =
          typeof request.body === 'string' && new URLSearchParams(request.body).get('again') === 'yes';
        const { projectId, userId, channel, category } = link;
        const preferences = [{ category, channel, enabled }];
        await savePreferences(context, { projectId, userId, preferences });
        return sendPage(reply, 200, enabled ? resubscribed(link) : unsubscribed(link));
      },
    );
    done();
  });
}

const NOT_FOUND: Page = {
  title: 'This link does not work',
  text: 'It is incomplete. Please open it from the e-mail again, or copy all of it.',
};

const UNSUBSCRIBE = { name: 'List-Unsubscribe', value: 'One-Click' };
const RESUBSCRIBE = { name: 'again', value: 'yes' };

function question(link: Unsubscription): Page {
  return {
    title: 'Unsubscribe?',
    text: `You will no longer get ${messages(link)}.`,
    button: { label: 'Unsubscribe', ...UNSUBSCRIBE },
  };
}

function required(link: Unsubscription): Page {
  return {
    title: 'These messages cannot be switched off',
    text: `You will still get ${messages(link)}: they are required, such as codes for logging in.`,
  };
}

function unsubscribed(link: Unsubscription): Page {
  return {
    title: 'You are unsubscribed',
    text: `You will get no more ${messages(link)}.`,
    button: { label: 'Subscribe again', ...RESUBSCRIBE, quiet: true },
  };
}

function resubscribed(link: Unsubscription): Page {
  return {
    title: 'You are subscribed again',
    text: `You will get ${messages(link)}.`,
    button: { label: 'Unsubscribe', ...UNSUBSCRIBE, quiet: true },
  };
}

function messages({ channel, category }: Unsubscription): string {
  const what = channel === 'email' ? 'e-mails' : 'messages';
  return category === null ? `${what} of this kind` : `${what} about “${category}”`;
}
