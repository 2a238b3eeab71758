import type { FastifyReply, FastifyRequest } from 'fastify';
import { withValues } from '../../domain/ground/catalogues/languages.ts';
import { ClientError } from '../../errors.ts';
import { VERSION } from '../../lib/version.ts';
import { prefersHtml } from '../accept.ts';
import type { App } from '../route.ts';
import { hasDemo } from './demo.ts';
import { languageOf, sendPage } from './page.ts';

/** `/` shows browsers whether the server is ready and where to go. Other clients get the error of `/`. */
export function homePage(
  { fastify, context, limits }: App,
  whyNotReady: () => Promise<string | undefined>,
): void {
  fastify.get('/', { schema: { hide: true } }, async (request, reply) => {
    await limits.stranger(request, reply);
    if (!prefersHtml(request)) throw nothingAt(request);
    const reason = await whyNotReady();
    const language = languageOf(request);
    const { serverReady, serverNotReady, apiReference, guides, demo } = language.texts;
    return sendPage(reply, reason === undefined ? 200 : 503, language, {
      title: 'Belfry',
      text: reason === undefined ? serverReady : withValues(serverNotReady, { reason }),
      links: [
        ...(hasDemo(context.config) ? [{ label: demo, href: 'demo' }] : []),
        { label: guides, href: 'docs/guides/first-steps' },
        { label: apiReference, href: 'docs/api' },
      ],
      note: VERSION,
    });
  });
}

/** Responds to a request for which there is no route: with a page for browsers, else with an error. */
export function sendNothing(request: FastifyRequest, reply: FastifyReply): FastifyReply {
  if (!prefersHtml(request)) throw nothingAt(request);
  const language = languageOf(request);
  const { notFoundTitle, notFoundText, startPage } = language.texts;
  const links = [{ label: startPage, href: '/' }];
  return sendPage(reply, 404, language, { title: notFoundTitle, text: notFoundText, links });
}

function nothingAt({ method, url }: FastifyRequest): ClientError {
  return new ClientError('not_found', [
    `There is nothing at ${method} ${url.split('?', 1)[0]?.slice(0, 200)}`,
  ]);
}
