import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import { isDatabaseUnavailable } from '../db/client.ts';
import { whyNotWritten } from '../db/write-failures.ts';
import { ClientError, type ErrorCode } from '../errors.ts';
import type { Api } from './api.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** The error behind a 5xx, for the log line of the request. */
    failure: unknown;
  }
}

/** Sends the error response for anything that a route threw, in the shape of the route's API. */
export function handleError(error: FastifyError, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const clientError = toClientError(error);
  if (clientError.status >= 500) request.failure = error;
  return sendError(clientError, reply, request.routeOptions?.config?.api?.errorBody);
}

/** Sends an error in the shape of an API. */
export function sendError(
  error: ClientError,
  reply: FastifyReply,
  body: Api['errorBody'] = errorList,
): FastifyReply {
  return reply
    .code(error.status)
    .headers(error.headers)
    .header('content-type', 'application/json; charset=utf-8')
    .send(JSON.stringify(body(error)));
}

/** The body of an error response: a list with all problems of the request. */
export function errorList({ problems }: ClientError): { errors: ClientError['problems'] } {
  return { errors: problems };
}

// Requests that Fastify rejects, by its code.
const BY_FASTIFY: Record<string, ErrorCode> = {
  FST_ERR_CTP_BODY_TOO_LARGE: 'payload_too_large',
  FST_ERR_CTP_INVALID_MEDIA_TYPE: 'unsupported_media_type',
};
// Text that PostgreSQL cannot store, and JSON that is nested too deeply for it: invalid requests that only
// the database detects.
const UNSTORABLE: Record<string, string> = {
  '22021': 'The request contains a character that cannot be stored',
  '22P05': 'The request contains a character that cannot be stored',
  '54001': 'The request is nested too deeply',
};

/** Turns an error into that of the response. Errors that the client did not cause are internal. */
export function toClientError(error: unknown): ClientError {
  if (error instanceof ClientError) return error;
  if (isDatabaseUnavailable(error)) return databaseUnavailable(error);
  const { code, statusCode, message } = error as Partial<FastifyError>;
  const unstorable = code === undefined ? undefined : UNSTORABLE[code];
  if (unstorable !== undefined) return new ClientError('validation_failed', [unstorable]);
  if (error instanceof RangeError && message === 'Maximum call stack size exceeded') {
    return new ClientError('validation_failed', ['The request is nested too deeply']);
  }
  const known = code === undefined ? undefined : BY_FASTIFY[code];
  if (known !== undefined) return new ClientError(known);
  if (code?.startsWith('FST_') && statusCode !== undefined && statusCode >= 400 && statusCode < 500) {
    return new ClientError('bad_request', message === undefined ? [] : [message]);
  }
  return new ClientError('internal_error');
}

// A deadlock, a lock, or a statement that took too long.
const BUSY = /^(?:40|55P03$|57014$)/;
const NO_CONNECTION_LEFT = '53300';

/** A full disk must not look like a database that is away: reads still work, and others can repair it. */
function databaseUnavailable(error: unknown): ClientError {
  const { code = '' } = error as { code?: string };
  const why = whyNotWritten(error);
  const messages: string[] = [];
  if (why !== undefined) messages.push(`The database of the service cannot write: ${why}. Try again later`);
  else if (BUSY.test(code)) messages.push('The database of the service is too busy; try again later');
  else if (code === NO_CONNECTION_LEFT)
    messages.push('The database of the service accepts no more connections; try again later');
  return new ClientError('service_unavailable', messages, { 'retry-after': '1' });
}

/** Responds to an `Expect` header other than `100-continue` (RFC 9110, 10.1.1), which no route sees. */
export function rejectExpectation(_request: IncomingMessage, response: ServerResponse): void {
  const error = new ClientError('expectation_failed');
  const body = JSON.stringify(errorList(error));
  response.writeHead(error.status, {
    'content-type': 'application/json; charset=utf-8',
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    'content-length': Buffer.byteLength(body),
    connection: 'close',
  });
  response.end(body);
}

/** Responds to invalid HTTP and to requests that arrive too slowly, for which Fastify has no request. */
export function respondToBadSocket(error: Error & { code?: string }, socket: Socket): void {
  if (error.code === 'ECONNRESET' || socket.destroyed) return;
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  const status =
    error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
      ? '408 Request Timeout'
      : error.code === 'HPE_HEADER_OVERFLOW'
        ? '431 Request Header Fields Too Large'
        : '400 Bad Request';
  const body = JSON.stringify(errorList(new ClientError('bad_request')));
  socket.end(
    `HTTP/1.1 ${status}\r\nContent-Type: application/json; charset=utf-8\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
    () => socket.destroy(),
  );
}
