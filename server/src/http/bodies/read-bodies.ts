import type { IncomingMessage } from 'node:http';
import type { FastifyContextConfig, FastifyRequest } from 'fastify';
import { ClientError } from '../../errors.ts';
import type { App } from '../route.ts';
import { BodyThread } from './body-thread.ts';
import { type BodyRules, parseAny } from './parse-body.ts';
import { ROW_FORMATS, type RowFormat } from './parse-rows.ts';
import { discardBody } from './read-body.ts';

// Another thread parses longer bodies. This size takes a few milliseconds.
const PARSED_HERE_BYTES = 512 * 1024;
// Users are also validated one by one and deflated.
const USERS_PARSED_HERE_BYTES = 64 * 1024;

/** Accepts bodies of JSON in UTF-8 and, for routes with `users`, of NDJSON and CSV. */
export function readBodies({ fastify, readBody }: Pick<App, 'fastify' | 'readBody'>): void {
  const thread = new BodyThread();
  fastify.decorateRequest('bodyHash', undefined);
  fastify.decorateRequest('bodyJson', undefined);
  fastify.decorateRequest('bodyTexts', undefined);
  fastify.decorateRequest('longArray', undefined);
  fastify.decorateRequest('textProblems', undefined);
  fastify.decorateRequest('pages', undefined);
  fastify.removeAllContentTypeParsers();
  const parser =
    (format: 'json' | RowFormat) => async (request: FastifyRequest, payload: IncomingMessage) => {
      if (request.is404) return undefined; // no route reads the body
      const { config, bodyLimit } = request.routeOptions;
      const { users, userBodyBytes = bodyLimit } = config;
      if (format !== 'json' && !users) throw new ClientError('unsupported_media_type');
      // An inflated body could have any size.
      if ((request.headers['content-encoding'] ?? 'identity') !== 'identity') {
        await discardBody(payload);
        throw new ClientError('unsupported_media_type', [
          'The request body must not have a Content-Encoding',
        ]);
      }
      const body = await readBody(
        request,
        payload,
        request.caller?.kind === 'user' ? userBodyBytes : bodyLimit,
      );
      const rules = rulesOf(request, config, users ? format : undefined);
      return body.length <= (users ? USERS_PARSED_HERE_BYTES : PARSED_HERE_BYTES)
        ? parseHere(request, body, rules)
        : parseElsewhere(request, body, rules, thread);
    };
  fastify.addContentTypeParser('application/json', parser('json'));
  for (const [type, format] of Object.entries(ROW_FORMATS))
    fastify.addContentTypeParser(type, parser(format));
  // An empty body may have any content type: `curl -X POST -d ''` sends it as a form.
  fastify.addContentTypeParser('*', ({ headers, is404 }, _body, done) => {
    const { 'content-length': length, 'transfer-encoding': coding } = headers;
    const empty = length === '0' || (length === undefined && coding === undefined);
    done(empty || is404 ? null : new ClientError('unsupported_media_type'), undefined);
  });
  fastify.addHook('onClose', () => thread.close());
}

function rulesOf(
  { headers }: FastifyRequest,
  { limits = NO_BODY, longArray, unwrap, wrapper }: FastifyContextConfig,
  users: 'json' | RowFormat | undefined,
): BodyRules {
  const hashed = headers['idempotency-key'] !== undefined;
  const keepWrapper = wrapper !== undefined;
  return { limits, longArray, unwrap: wrapper ?? unwrap, keepWrapper, hashed, ...(users && { users }) };
}

// For routes without limits of their own.
const NO_BODY = { keysAndValues: 100, inMember: 0, levels: 10 };

function parseHere(request: FastifyRequest, body: Buffer, rules: BodyRules): unknown {
  const { value, json, longArray, hash, pages } = parseAny(body, rules);
  if (pages !== undefined) request.textProblems = [];
  request.pages = pages;
  request.bodyHash = hash;
  request.bodyJson = json;
  request.longArray = longArray;
  return value;
}

async function parseElsewhere(
  request: FastifyRequest,
  body: Buffer,
  rules: BodyRules,
  thread: BodyThread,
): Promise<unknown> {
  // The memory is held until the thread is done, even if the client disconnects.
  request.heldBody?.hold();
  try {
    const { value, texts, problems, hash, pages } = await thread.parse(body, rules);
    request.pages = pages;
    request.bodyHash = hash;
    request.bodyTexts = texts;
    request.textProblems = problems;
    return value;
  } finally {
    request.heldBody?.release();
  }
}
