import type { FastifyReply, FastifyRequest } from 'fastify';
import { languageFor } from '../../domain/ground/catalogues/languages.ts';
import { acceptedLocales } from '../../lib/locale.ts';
import { sendPage } from './page.ts';

/** Responds with the page for a link of a message that was not signed by this server. */
export function sendBrokenLink({ headers }: FastifyRequest, reply: FastifyReply): FastifyReply {
  const language = languageFor(acceptedLocales(headers['accept-language']));
  const { brokenLinkTitle: title, brokenLinkText: text } = language.texts;
  return sendPage(reply, 404, language, { title, text });
}
