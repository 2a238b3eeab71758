import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** Forwards each connection to the first of its targets that accepts it. */
export interface LoadBalancer {
  readonly address: string;
  /** The ports of servers on 127.0.0.1. */
  targets: number[];
  close(): Promise<void>;
}

export async function startLoadBalancer(): Promise<LoadBalancer> {
  const sockets = new Set<Socket>();
  const kept = (socket: Socket) => {
    sockets.add(socket);
    socket.on('error', () => {}); // either end may break the connection
    return socket.once('close', () => sockets.delete(socket));
  };
  const forward = (incoming: Socket, [port, ...others]: number[]): void => {
    if (port === undefined || incoming.destroyed) {
      incoming.destroy();
      return;
    }
    const outgoing = kept(connect(port, '127.0.0.1'));
    const next = () => forward(incoming, others);
    outgoing.once('error', next);
    outgoing.once('connect', () => {
      outgoing.off('error', next);
      incoming.pipe(outgoing).pipe(incoming);
      incoming.once('close', () => outgoing.destroy());
      outgoing.once('close', () => incoming.destroy());
    });
  };
  const server = createServer((incoming) => forward(kept(incoming), balancer.targets));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const balancer: LoadBalancer = {
    address: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    targets: [],
    async close() {
      server.close();
      for (const socket of sockets) socket.destroy();
      await once(server, 'close');
    },
  };
  return balancer;
}
