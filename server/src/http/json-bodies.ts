import type { IncomingMessage } from 'node:http';
import type { FastifyRequest } from 'fastify';
import { ClientError } from '../errors.ts';
import { BodyThread } from './body-thread.ts';
import { type BodyRules, parseBody } from './parse-body.ts';
import { discardBody } from './read-body.ts';
import type { App } from './route.ts';

// Another thread parses longer bodies. This size takes a few milliseconds.
const PARSED_HERE_BYTES = 512 * 1024;

/** Accepts only bodies of JSON in UTF-8. */
export function readJsonBodies({ fastify, readBody }: Pick<App, 'fastify' | 'readBody'>): void {
  const thread = new BodyThread();
  fastify.decorateRequest('bodyHash', undefined);
  fastify.decorateRequest('bodyJson', undefined);
  fastify.decorateRequest('bodyTexts', undefined);
  fastify.decorateRequest('longArray', undefined);
  fastify.decorateRequest('textProblems', undefined);
  fastify.removeAllContentTypeParsers();
  fastify.addContentTypeParser(
    'application/json',
    async (request: FastifyRequest, payload: IncomingMessage) => {
      if (request.is404) return undefined; // no route reads the body
      // An inflated body could have any size.
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
  // An empty body may have any content type: `curl -X POST -d ''` sends it as a form.
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

// For routes without limits of their own.
const NO_BODY = { keysAndValues: 100, inMember: 0, levels: 10 };

function parseHere(request: FastifyRequest, body: Buffer): unknown {
  const { value, json, longArray, hash } = parseBody(body, rulesOf(request));
  request.bodyHash = hash;
  request.bodyJson = json;
  request.longArray = longArray;
  return value;
}

async function parseElsewhere(request: FastifyRequest, body: Buffer, thread: BodyThread): Promise<unknown> {
  // The memory is held until the thread is done, even if the client disconnects.
  request.heldBody?.hold();
  try {
    const { value, texts, problems, hash } = await thread.parse(body, rulesOf(request));
    request.bodyHash = hash;
    request.bodyTexts = texts;
    request.textProblems = problems;
    return value;
  } finally {
    request.heldBody?.release();
  }
}
