import { once } from 'node:events';
import { connect } from 'node:net';

/** Sends bytes as they are, and returns everything that the server sends until it closes the connection. */
export async function rawExchange(address: string, request: string): Promise<string> {
  const { hostname, port } = new URL(address);
  const socket = connect(Number(port), hostname);
  socket.end(request);
  let text = '';
  socket.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk;
  });
  await once(socket, 'close');
  return text;
}
