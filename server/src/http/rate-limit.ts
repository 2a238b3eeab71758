import type { FastifyReply, FastifyRequest } from 'fastify';
import { LRUCache } from 'lru-cache';
import type { Config } from '../config.ts';
import { ClientError } from '../errors.ts';
import type { Clock } from '../lib/clock.ts';
import { SlidingWindow } from '../lib/sliding-window.ts';
import type { Caller } from './auth.ts';

/** Counts requests and throws `rate_limit_exceeded` for one too many. */
export interface RateLimits {
  /** A request with a valid credential: its own limits for reads and writes. */
  caller(caller: Caller, request: FastifyRequest, reply: FastifyReply): void;
  /** A request without one: by address. */
  stranger(request: FastifyRequest, reply: FastifyReply): void;
  /** The same for one who was refused a WebSocket. */
  strangerAt(address: string): void;
}

// About 400 bytes each: 20 MB at most, whoever asks. Beyond that the least recent one starts anew.
const MAX_WINDOWS = 50_000;

/** The limits of the settings, or of the project where it has its own. Counted in this process. */
export function createRateLimits({ config, clock }: { config: Config; clock: Clock }): RateLimits {
  const windows = new LRUCache<string, SlidingWindow>({ max: MAX_WINDOWS });

  function count(name: string, limit: number, reply?: FastifyReply): void {
    if (limit === 0) return;
    let window = windows.get(name);
    if (window === undefined) {
      window = new SlidingWindow();
      windows.set(name, window);
    }
    const { allowed, remaining, resetSeconds } = window.take(limit, clock.now());
    reply?.headers({
      'ratelimit-limit': limit,
      'ratelimit-remaining': remaining,
      'ratelimit-reset': resetSeconds,
    });
    if (allowed) return;
    const message = `Too many requests: ${limit} per minute are allowed. Try again in ${resetSeconds} s`;
    throw new ClientError('rate_limit_exceeded', [message], { 'retry-after': String(resetSeconds) });
  }

  return {
    caller(caller, request, reply) {
      const reads = request.method === 'GET' || request.method === 'HEAD' || request.method === 'OPTIONS';
      const own = caller.project.rateLimits;
      const limit = reads ? (own.reads ?? config.RATE_LIMIT_READS) : (own.writes ?? config.RATE_LIMIT_WRITES);
      if (limit === 0) return;
      // A user may have many tokens, made by the hour: they share one limit.
      const credential = caller.kind === 'user' ? caller.userId : caller.tokenId;
      count(`${reads ? 'r' : 'w'}${credential}`, limit, reply);
    },
    stranger(request, reply) {
      if (config.RATE_LIMIT_IP > 0) count(`i${network(request.ip)}`, config.RATE_LIMIT_IP, reply);
    },
    strangerAt(address) {
      count(`i${network(address)}`, config.RATE_LIMIT_IP);
    },
  };
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
