import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import type { FastifyInstance } from 'fastify';
import { ROLES, type Role } from '../config.ts';
import { ClientError, MISSING_ROLE } from '../errors.ts';
import type { KnownPaths } from './methods.ts';
import { refuse } from './realtime/web-sockets.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The role of the nodes that serve the route. Default: `api`. */
    role?: Role | 'any';
  }
}

/** Gives a realtime connection to the process that serves it. `head` is what was read behind the request. */
export type PassOn = (request: IncomingMessage, socket: Duplex, head: Buffer) => void;

/** Rejects requests for roles that this node does not have. Passes realtime connections on, if it can. */
export function checkRole(
  fastify: FastifyInstance,
  {
    roles,
    passOn,
    knownPaths,
  }: { roles: readonly Role[]; passOn: PassOn | undefined; knownPaths: KnownPaths },
): void {
  if (ROLES.every((role) => roles.includes(role))) return;
  fastify.addHook('onRequest', (request, reply, done) => {
    const { role = 'api' } = request.routeOptions.config;
    if (role === 'any' || roles.includes(role) || (request.is404 && !knownPaths.has(request))) done();
    else if (role === 'realtime' && passOn !== undefined) {
      reply.hijack();
      passOn(request.raw, request.raw.socket, Buffer.alloc(0));
    } else done(servedElsewhere(role));
  });
}

/** Does the same with WebSockets. Call it when all routes are registered. */
export function checkRoleOfSockets(
  { server }: FastifyInstance,
  roles: readonly Role[],
  passOn: PassOn | undefined,
): void {
  if (roles.includes('realtime')) return;
  server.removeAllListeners('upgrade');
  server.on('upgrade', (request, socket, head) => {
    socket.on('error', () => {}); // the client has gone
    if (passOn === undefined) refuse(socket, servedElsewhere('realtime'));
    else passOn(request, socket, head);
  });
}

function servedElsewhere(role: Role): ClientError {
  const message = `This node does not have the role ${role}; send this to one that has`;
  return new ClientError('not_found', [message], { [MISSING_ROLE]: role });
}
