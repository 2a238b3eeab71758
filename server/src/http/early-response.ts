import type { IncomingMessage } from 'node:http';
import type { FastifyInstance } from 'fastify';

// Bodies of the usual maximum size are discarded, so that simple clients, which read only after they have
// written, get their response.
const MAX_DISCARDED_BYTES = 1_048_576;

/**
 * Closes the connection after a response that is sent before the request's body has arrived, such as a 401.
 * Node would keep reading the body, of whatever length the route permits, for as long as a request may take.
 */
export function closeAfterEarlyResponses(fastify: FastifyInstance, lingerMs: number): void {
  fastify.addHook('onSend', ({ raw }, reply, _payload, done) => {
    if (raw.complete || !announcesBody(raw)) {
      done();
      return;
    }
    // A short body has often arrived with its head, and is parsed after it.
    setImmediate(() => {
      if (!raw.complete && !raw.destroyed) {
        reply.header('connection', 'close');
        lingerAfterResponse(raw, lingerMs);
      }
      done();
    });
  });
}

function announcesBody({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}

/**
 * A socket that is closed with unread input resets the connection, and the client loses the response. So only
 * our side is ended, and the client gets a moment to read the response and close the other.
 */
function lingerAfterResponse(request: IncomingMessage, lingerMs: number): void {
  const { socket } = request;
  let discardedBytes = 0;
  request.on('data', (chunk: Buffer) => {
    discardedBytes += chunk.length;
    if (discardedBytes > MAX_DISCARDED_BYTES) request.pause();
  });
  // Node calls this after a response with `Connection: close`.
  socket.destroySoon = () => {
    socket.end();
    const timer = setTimeout(() => socket.destroy(), lingerMs);
    socket.once('close', () => clearTimeout(timer));
  };
}
