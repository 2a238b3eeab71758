import { connect, type Socket } from 'node:net';

/**
 * A kept-alive HTTP connection for one request at a time. It does little work, because it shares the cores
 * with the server.
 */
export class Connection {
  readonly #address: { host: string; port: number };
  #socket: Socket;
  #received: Buffer = Buffer.alloc(0);
  #pending: PromiseWithResolvers<number> | undefined;

  constructor(address: string) {
    const { hostname, port } = new URL(address);
    this.#address = { host: hostname, port: Number(port) };
    this.#socket = this.#connect();
  }

  /** Sends a request made by `requestBytes`. Resolves to the status after the whole response. */
  send(request: Buffer): Promise<number> {
    // The server closes connections that are not used for a while.
    if (this.#socket.closed) this.#socket = this.#connect();
    this.#pending = Promise.withResolvers();
    this.#socket.write(request);
    return this.#pending.promise;
  }

  #connect(): Socket {
    this.#received = Buffer.alloc(0);
    return connect({ ...this.#address, noDelay: true })
      .on('data', (bytes: Buffer) => this.#receive(bytes))
      .on('error', (error) => this.#pending?.reject(error))
      .on('close', () => this.#pending?.reject(new Error('the connection was closed')));
  }

  close(): void {
    this.#pending = undefined;
    this.#socket.destroy();
  }

  #receive(bytes: Buffer): void {
    this.#received = this.#received.length === 0 ? bytes : Buffer.concat([this.#received, bytes]);
    const end = this.#received.indexOf('\r\n\r\n');
    if (end < 0) return;
    const head = this.#received.toString('latin1', 0, end);
    const length = Number(/\r\ncontent-length: (\d+)/i.exec(head)?.[1] ?? 0);
    if (this.#received.length < end + 4 + length) return;
    this.#received = this.#received.subarray(end + 4 + length);
    this.#pending?.resolve(Number(head.slice(9, 12)));
  }
}

/** A request as it goes over the wire. */
export function requestBytes(request: {
  method: string;
  path: string;
  jwt: string;
  body?: string;
  idempotencyKey?: string;
}): Buffer {
  const { method, path, jwt, body, idempotencyKey } = request;
  const key = idempotencyKey === undefined ? '' : `idempotency-key: ${idempotencyKey}\r\n`;
  const content =
    body === undefined
      ? ''
      : `content-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n`;
  const head = `${method} ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer ${jwt}\r\n`;
  return Buffer.from(`${head}${key}${content}\r\n${body ?? ''}`);
}
