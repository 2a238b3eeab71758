import type { IncomingMessage } from 'node:http';
import type { FastifyRequest } from 'fastify';
import { ClientError } from '../errors.ts';
import { BodyThread } from './body-thread.ts';
import { type BodyRules, parseBody } from './parse-body.ts';
import { discardBody } from './read-body.ts';
import type { App } from './route.ts';

// Longer bodies are parsed by another thread: up to here that takes this one a few milliseconds.
const PARSED_HERE_BYTES = 512 * 1024;

/** Bodies are JSON in UTF-8 and nothing else. */
export function readJsonBodies({ fastify, readBody }: Pick<App, 'fastify' | 'readBody'>): void {
  const thread = new BodyThread();
  fastify.decorateRequest('bodyHash', undefined);
  fastify.decorateRequest('bodyJson', undefined);
  fastify.decorateRequest('bodyTexts', undefined);
  fastify.decorateRequest('longArray', undefined);
  fastify.removeAllContentTypeParsers();
  fastify.addContentTypeParser(
    'application/json',
    async (request: FastifyRequest, payload: IncomingMessage) => {
      if (request.is404) return undefined; // the body is not for anyone
      // A deflated body could swell to any size.
      if ((request.headers['content-encoding'] ?? 'identity') !== 'identity') {
        await discardBody(payload);
        throw new ClientError('unsupported_media_type', [
          'The request body must not have a Content-Encoding',
        ]);
      }
      const body = await readBody(request, payload);
      return body.length <= PARSED_HERE_BYTES
        ? parseHere(request, body)
        : parseElsewhere(request, body, thread);
    },
  );
  // No body at all may be announced as anything: `curl -X POST -d ''` calls it a form.
  fastify.addContentTypeParser('*', ({ headers, is404 }, _body, done) => {
    const { 'content-length': length, 'transfer-encoding': coding } = headers;
    const empty = length === '0' || (length === undefined && coding === undefined);
    done(empty || is404 ? null : new ClientError('unsupported_media_type'), undefined);
  });
  fastify.addHook('onClose', () => thread.close());
}

function rulesOf({ headers, routeOptions: { config } }: FastifyRequest): BodyRules {
  const { limits = NO_BODY, longArray, unwrap } = config;
  return { limits, longArray, unwrap, hashed: headers['idempotency-key'] !== undefined };
}

// Of a route that has not said what it takes.
const NO_BODY = { keysAndValues: 100, inMember: 0, levels: 10 };

function parseHere(request: FastifyRequest, body: Buffer): unknown {
  const { value, json, longArray, hash } = parseBody(body, rulesOf(request));
  request.bodyHash = hash;
  request.bodyJson = json;
  request.longArray = longArray;
  return value;
}

async function parseElsewhere(request: FastifyRequest, body: Buffer, thread: BodyThread): Promise<unknown> {
  // Its memory is taken until the thread is done, also when the client is gone.
  request.heldBody?.hold();
  try {
    const { value, texts, hash } = await thread.parse(body, rulesOf(request));
    request.bodyHash = hash;
    request.bodyTexts = texts;
    return value;
  } finally {
    request.heldBody?.release();
  }
}
