import { type ClientHttp2Session, connect, constants } from 'node:http2';
import type { Timeouts } from './transport.ts';
import { type Endpoint, type HttpAnswer, type HttpReply, type HttpRequest, openSocket } from './transport.ts';

const MAX_ANSWER_CHARACTERS = 64 * 1024;

/** One request over HTTP/2, on a connection of its own. With `http:` it is spoken without TLS, from the first byte on (RFC 9113, 3.3). */
export async function requestHttp2(
  endpoint: Endpoint,
  request: HttpRequest,
  { connectMs, replyMs }: Timeouts,
): Promise<HttpAnswer> {
  const url = new URL(`${endpoint.base}${request.path}`);
  let written = false;
  let session: ClientHttp2Session | undefined;
  try {
    const socket = await openSocket(endpoint.connect, url, { timeoutMs: connectMs, alpn: 'h2' });
    session = connect(url.origin, { createConnection: () => socket });
    written = true;
    return await exchange(session, url, request, replyMs);
  } catch (error) {
    const { code = 'UNKNOWN', message } = error as NodeJS.ErrnoException;
    return { error: { code, message }, written };
  } finally {
    session?.destroy();
  }
}

function exchange(
  session: ClientHttp2Session,
  url: URL,
  { method, headers, body }: HttpRequest,
  timeoutMs: number,
): Promise<HttpReply> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(
      () => reject(Object.assign(new Error('the answer took too long'), { code: 'ETIMEDOUT' })),
      timeoutMs,
    );
    const end = (settle: () => void) => {
      clearTimeout(timer);
      settle();
    };
    const fail = (error: Error) => end(() => reject(error));
    session.on('error', fail);
    const stream = session.request({
      [constants.HTTP2_HEADER_METHOD]: method,
      [constants.HTTP2_HEADER_PATH]: `${url.pathname}${url.search}`,
      'user-agent': 'Belfry',
      ...headers,
    });
    const reply: HttpReply & { headers: Record<string, string>; text: string } = {
      status: 0,
      headers: {},
      text: '',
    };
    stream.on('error', fail);
    stream.once('response', (given) => {
      for (const [name, value] of Object.entries(given)) {
        if (name === constants.HTTP2_HEADER_STATUS) reply.status = Number(value);
        else if (value !== undefined) reply.headers[name] = String(value);
      }
    });
    stream.setEncoding('utf8');
    stream.on('data', (piece: string) => {
      reply.text = (reply.text + piece).slice(0, MAX_ANSWER_CHARACTERS);
    });
    stream.once('end', () => end(() => resolve(reply)));
    // A connection that the other side ends is an end too, and not always an error.
    stream.once('close', () =>
      fail(Object.assign(new Error('the connection was closed'), { code: 'ECONNRESET' })),
    );
    stream.end(body);
  });
}
