import type { FastifyReply, FastifyRequest } from 'fastify';
import type { App } from '../route.ts';
import { sendBrokenLink } from './page.ts';

/** A request for a page behind a signed link. */
export interface LinkRequest<Link> {
  link: Link;
  request: FastifyRequest;
  reply: FastifyReply;
}

interface SignedPage<Link> {
  /** The path, which the token follows. */
  path: string;
  /** Returns the content of a token; undefined if it was not signed by this server. */
  read: (token: string) => Promise<Link | undefined>;
  bodyLimitBytes: number;
  get: { operationId: string; respond: (given: LinkRequest<Link>) => Promise<FastifyReply> };
  post: {
    operationId: string;
    respond: (given: LinkRequest<Link> & { form: URLSearchParams }) => Promise<FastifyReply>;
  };
}

/** Registers a page behind a signed link. It needs neither login nor cookies. */
export async function signedPage<Link extends { userId: string }>(
  { fastify, limits }: App,
  { path, read, bodyLimitBytes: bodyLimit, get, post }: SignedPage<Link>,
): Promise<void> {
  const url = `${path}/:token`;
  const schema = { hide: true };

  // Valid links are limited by user and others by address, because mail providers send the requests of all
  // users from few addresses.
  const readLink = async (request: FastifyRequest, reply: FastifyReply) => {
    limits.checkStranger(request, reply);
    const { token } = request.params as { token: string };
    const link = await read(token);
    await (link === undefined ? limits.stranger(request, reply) : limits.linked(link.userId, reply));
    return link;
  };

  await fastify.register((scope, _options, done) => {
    // Any content type, because mail providers differ and only the path matters.
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser('*', { parseAs: 'string' }, (_request, body, parsed) => parsed(null, body));
    const config = (operationId: string) => ({ operationId, secretPath: true });
    scope.get(url, { schema, config: config(get.operationId) }, async (request, reply) => {
      const link = await readLink(request, reply);
      return link === undefined ? sendBrokenLink(request, reply) : get.respond({ link, request, reply });
    });
    scope.post(url, { schema, config: config(post.operationId), bodyLimit }, async (request, reply) => {
      const link = await readLink(request, reply);
      if (link === undefined) return sendBrokenLink(request, reply);
      const form = new URLSearchParams(typeof request.body === 'string' ? request.body : '');
      return post.respond({ link, request, reply, form });
    });
    done();
  });
}
