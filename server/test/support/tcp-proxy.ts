import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type NetConnectOpts, type Socket } from 'node:net';

/** A proxy between a client and a server, below their protocol. */
export interface TcpProxy {
  readonly port: number;
  /** Called with the bytes of a client and its connection. They are lost if it returns false. */
  onRequest: (bytes: Buffer, connection: Socket) => unknown;
  /** The same for the bytes of the server, which it may change. */
  onReply: (bytes: Buffer, connection: Socket) => unknown;
  /** Stops reading what the server sends, until `resume`. */
  stall(): void;
  /** Stops reading what the clients send, for good. */
  hold(): void;
  resume(): void;
  /** Breaks all open connections. */
  cut(): void;
  close(): Promise<void>;
}

/** Forwards connections to 127.0.0.1 to a server on loopback or on a Unix socket. */
export async function startTcpProxy(target: NetConnectOpts): Promise<TcpProxy> {
  const sockets = new Set<Socket>();
  const clients = new Set<Socket>();
  const servers = new Set<Socket>();
  const kept = (socket: Socket) => {
    sockets.add(socket);
    socket.on('error', () => {}); // either end may break the connection
    socket.once('close', () => sockets.delete(socket));
    return socket;
  };
  const server = createServer((incoming) => {
    const outgoing = kept(connect(target));
    outgoing.once('close', () => servers.delete(outgoing));
    servers.add(outgoing);
    clients.add(incoming);
    kept(incoming).on('data', (bytes: Buffer) => {
      if (proxy.onRequest(bytes, incoming) !== false) outgoing.write(bytes);
    });
    incoming.once('end', () => outgoing.end());
    outgoing.on('data', (bytes: Buffer) => {
      if (proxy.onReply(bytes, incoming) !== false) incoming.write(bytes);
    });
    incoming.once('close', () => {
      clients.delete(incoming);
      outgoing.destroy();
    });
    outgoing.once('close', () => incoming.end());
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const proxy: TcpProxy = {
    port: (server.address() as AddressInfo).port,
    onRequest: () => {},
    onReply: () => {},
    stall() {
      for (const socket of servers) socket.pause();
    },
    hold() {
      for (const socket of clients) socket.pause();
    },
    resume() {
      for (const socket of servers) socket.resume();
    },
    cut() {
      for (const socket of sockets) socket.destroy();
    },
    async close() {
      server.close();
      for (const socket of sockets) socket.destroy();
      await once(server, 'close');
    },
  };
  return proxy;
}
