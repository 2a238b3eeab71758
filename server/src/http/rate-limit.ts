import type { IncomingMessage } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Config } from '../config.ts';
import type { RateWindows } from '../domain/ground/requests/rate-windows.ts';
import { ClientError } from '../errors.ts';
import type { Taken } from '../lib/sliding-window.ts';
import type { ApiLimits } from './api.ts';
import type { Caller } from './auth.ts';
import { clientAddress } from './client-address.ts';

/**
 * Counts requests and throws `rate_limit_exceeded` for one too many; a promise only where other nodes have to
 * be asked.
 */
export interface RateLimits {
  /** A request with a valid credential: by its caller, apart for reads and writes. */
  caller(
    caller: Caller,
    perMinute: ApiLimits['requests'],
    request: FastifyRequest,
    reply: FastifyReply,
  ): void | Promise<void>;
  /** A request without one: by address. */
  stranger(request: FastifyRequest, reply: FastifyReply): void | Promise<void>;
  /**
   * Who has a link that was signed here for a user: by user, for the mail providers of all of them send from
   * few addresses.
   */
  linked(userId: string, reply: FastifyReply): void | Promise<void>;
  /**
   * Refuses an address that is known to be over its limit, and counts nothing: before it is found out, at
   * some cost, who asks.
   */
  heldUp(request: FastifyRequest, reply: FastifyReply): void;
  /**
   * A webhook that nobody has signed: by address and path, for a vendor sends for many projects from few
   * addresses, of which one may have forgotten to tell it to stop. All paths together have as much as
   * `WEBHOOKS_OF_ADDRESS` of them.
   */
  unsigned(request: FastifyRequest, reply: FastifyReply): Promise<void>;
  /** Refuses a webhook that would be refused by `unsigned`, and counts nothing. */
  unsignedHeldUp(request: FastifyRequest, reply: FastifyReply): void;
  /** The same as `stranger`, for one who was refused a WebSocket. */
  refusedSocket(request: IncomingMessage): void | Promise<void>;
}

const WEBHOOKS_OF_ADDRESS = 20;

/** The limits of the settings, or of the project where it has its own. */
export function createRateLimits({ config, windows }: { config: Config; windows: RateWindows }): RateLimits {
  const addressOf = clientAddress(config.TRUSTED_PROXIES);

  function count(name: string, limit: number, reply?: FastifyReply): void | Promise<void> {
    if (limit === 0) return;
    const taken = windows.take(name, limit);
    if (taken instanceof Promise) return taken.then((later) => tell(later, limit, reply));
    tell(taken, limit, reply);
  }

  function holdUp(name: string, limit: number, reply: FastifyReply): void {
    const refusal = limit === 0 ? undefined : windows.refusal(name, limit);
    if (refusal !== undefined) tell(refusal, limit, reply);
  }

  /** What counts an unsigned webhook, with the limit of each. */
  function unsignedCounts({ raw, url }: FastifyRequest): [name: string, limit: number][] {
    const from = network(addressOf(raw));
    const path = url.split('?', 1)[0]?.toLowerCase() ?? '';
    return [
      [`h${from} ${path}`, config.RATE_LIMIT_IP],
      [`h${from}`, WEBHOOKS_OF_ADDRESS * config.RATE_LIMIT_IP],
    ];
  }

  return {
    caller(caller, perMinute, request, reply) {
      const reads = request.method === 'GET' || request.method === 'HEAD' || request.method === 'OPTIONS';
      const own = caller.project.rateLimits;
      const limit = reads ? (own.reads ?? perMinute.reads) : (own.writes ?? perMinute.writes);
      // A user may have many tokens, made by the hour: they share one limit.
      const credential = caller.kind === 'user' ? caller.userId : caller.tokenId;
      return count(`${reads ? 'r' : 'w'}${credential}`, limit, reply);
    },
    stranger({ raw }, reply) {
      return count(`i${network(addressOf(raw))}`, config.RATE_LIMIT_IP, reply);
    },
    linked(userId, reply) {
      return count(`l${userId}`, config.RATE_LIMIT_IP, reply);
    },
    heldUp({ raw }, reply) {
      holdUp(`i${network(addressOf(raw))}`, config.RATE_LIMIT_IP, reply);
    },
    async unsigned(request, reply) {
      for (const [name, limit] of unsignedCounts(request).reverse()) await count(name, limit, reply);
    },
    unsignedHeldUp(request, reply) {
      for (const [name, limit] of unsignedCounts(request)) holdUp(name, limit, reply);
    },
    refusedSocket(request) {
      return count(`i${network(addressOf(request))}`, config.RATE_LIMIT_IP);
    },
  };
}

function tell({ allowed, remaining, resetSeconds }: Taken, limit: number, reply?: FastifyReply): void {
  reply?.headers({
    'ratelimit-limit': limit,
    'ratelimit-remaining': remaining,
    'ratelimit-reset': resetSeconds,
  });
  if (allowed) return;
  const message = `Too many requests: ${limit} per minute are allowed. Try again in ${resetSeconds} s`;
  throw new ClientError('rate_limit_exceeded', [message], { 'retry-after': String(resetSeconds) });
}

/** What one customer has: an IPv4 address, or the /64 that an IPv6 address lies in. */
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
