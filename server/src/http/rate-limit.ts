import type { IncomingMessage } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Config } from '../config.ts';
import type { RateWindows } from '../domain/ground/requests/rate-windows.ts';
import { ClientError } from '../errors.ts';
import type { Taken } from '../lib/sliding-window.ts';
import type { Api } from './api.ts';
import type { Caller } from './auth.ts';
import { clientAddress } from './client-address.ts';

/**
 * Counts requests and throws `rate_limit_exceeded` above a limit. Returns a promise only if other nodes
 * count, too.
 */
export interface RateLimits {
  /** A request with a valid credential: by its caller and version, reads and writes separately. */
  caller(
    caller: Caller,
    api: Pick<Api, 'version' | 'limits'>,
    request: Pick<FastifyRequest, 'method'>,
    reply?: FastifyReply,
  ): void | Promise<void>;
  /** A request without one, by address. */
  stranger(request: FastifyRequest, reply: FastifyReply): void | Promise<void>;
  /**
   * A request with a link that was signed for a user, by user, because mail providers send those of all users
   * from few addresses.
   */
  linked(userId: string, reply: FastifyReply): void | Promise<void>;
  /**
   * Rejects an address that is over its limit, and counts nothing. For use before an expensive
   * authentication.
   */
  checkStranger(request: FastifyRequest, reply: FastifyReply): void;
  /**
   * A webhook without a valid signature, by address and path: a vendor sends the webhooks of many projects
   * from few addresses, and one project may have deleted its integration. All paths of an address together
   * may send `WEBHOOKS_OF_ADDRESS` times the limit of one.
   */
  unsigned(request: FastifyRequest, reply: FastifyReply): Promise<void>;
  /** Rejects a webhook that `unsigned` would reject, and counts nothing. */
  checkUnsigned(request: FastifyRequest, reply: FastifyReply): void;
  /** A WebSocket that was opened, by its user or token: their requests do not count with it. */
  socket(opener: string): void | Promise<void>;
  /** Rejects a WebSocket that `socket` would reject, and counts nothing. */
  checkSocket(opener: string): void;
  /** The same as `stranger`, for a rejected WebSocket. */
  refusedSocket(request: IncomingMessage): void | Promise<void>;
}

const WEBHOOKS_OF_ADDRESS = 20;

/**
 * The limits of the project, or else those of the settings. Addresses are counted in `ofAddresses`, so that
 * several cells share the limits of strangers.
 */
export function createRateLimits({
  config,
  windows,
  ofAddresses = windows,
}: {
  config: Config;
  windows: RateWindows;
  ofAddresses?: RateWindows;
}): RateLimits {
  const addressOf = clientAddress(config.TRUSTED_PROXIES);

  function count(
    name: string,
    limit: number,
    reply?: FastifyReply,
    counting = ofAddresses,
  ): void | Promise<void> {
    if (limit === 0) return;
    const taken = counting.take(name, limit);
    if (taken instanceof Promise) return taken.then((later) => enforce(later, limit, reply));
    enforce(taken, limit, reply);
  }

  function check(name: string, limit: number, reply?: FastifyReply, counting = ofAddresses): void {
    const refusal = limit === 0 ? undefined : counting.refusal(name, limit);
    if (refusal !== undefined) enforce(refusal, limit, reply);
  }

  /** The counters of an unsigned webhook with their limits. */
  function unsignedCounts({ raw, url }: FastifyRequest): [name: string, limit: number][] {
    const from = network(addressOf(raw));
    const path = url.split('?', 1)[0]?.toLowerCase() ?? '';
    return [
      [`h${from} ${path}`, config.RATE_LIMIT_IP],
      [`h${from}`, WEBHOOKS_OF_ADDRESS * config.RATE_LIMIT_IP],
    ];
  }

  return {
    caller(caller, { version, limits: { requests } }, request, reply) {
      const reads = request.method === 'GET' || request.method === 'HEAD' || request.method === 'OPTIONS';
      const own = caller.project.rateLimits;
      const limit = reads ? (own.reads ?? requests.reads) : (own.writes ?? requests.writes);
      // A user may have many tokens, made by the hour: they share one limit.
      const credential = caller.kind === 'user' ? caller.userId : caller.tokenId;
      return count(`${version}${reads ? 'r' : 'w'}${credential}`, limit, reply, windows);
    },
    stranger({ raw }, reply) {
      return count(`i${network(addressOf(raw))}`, config.RATE_LIMIT_IP, reply);
    },
    linked(userId, reply) {
      return count(`l${userId}`, config.RATE_LIMIT_IP, reply, windows);
    },
    checkStranger({ raw }, reply) {
      check(`i${network(addressOf(raw))}`, config.RATE_LIMIT_IP, reply);
    },
    async unsigned(request, reply) {
      for (const [name, limit] of unsignedCounts(request).reverse()) await count(name, limit, reply);
    },
    checkUnsigned(request, reply) {
      for (const [name, limit] of unsignedCounts(request)) check(name, limit, reply);
    },
    socket(opener) {
      return count(`s${opener}`, config.RATE_LIMIT_V1_READS, undefined, windows);
    },
    checkSocket(opener) {
      check(`s${opener}`, config.RATE_LIMIT_V1_READS, undefined, windows);
    },
    refusedSocket(request) {
      return count(`i${network(addressOf(request))}`, config.RATE_LIMIT_IP);
    },
  };
}

function enforce({ allowed, remaining, resetSeconds }: Taken, limit: number, reply?: FastifyReply): void {
  reply?.headers({
    'ratelimit-limit': limit,
    'ratelimit-remaining': remaining,
    'ratelimit-reset': resetSeconds,
  });
  if (allowed) return;
  const message = `Too many requests: ${limit} per minute are allowed. Try again in ${resetSeconds} s`;
  throw new ClientError('rate_limit_exceeded', [message], { 'retry-after': String(resetSeconds) });
}

/** The address range of one customer: an IPv4 address, or the /64 of an IPv6 address. */
export function network(address: string): string {
  if (!address.includes(':')) return address;
  const [head = '', tail] = (address.split('%', 1)[0] ?? '').toLowerCase().split('::');
  if (/^::ffff:\d+\.\d+\.\d+\.\d+$/i.test(address)) return address.slice(7);
  const groups = head === '' ? [] : head.split(':');
  if (tail !== undefined) {
    const last = tail === '' ? [] : tail.split(':');
    while (groups.length + last.length < 8) groups.push('0');
    groups.push(...last);
  }
  return `${groups
    .slice(0, 4)
    .map((group) => group.replace(/^0+(?=.)/, ''))
    .join(':')}::/64`;
}
