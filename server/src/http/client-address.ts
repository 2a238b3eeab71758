import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import { parseNetworks } from '../lib/networks.ts';

/**
 * Determines the address of the client. `X-Forwarded-For` counts only from the proxies in `trusted`, CIDR
 * blocks separated by commas. Each proxy appends the address of its peer, so the list is read from its end,
 * and the first address that is not a trusted proxy is the client. The client may have written the addresses
 * before.
 */
export function clientAddress(trusted: string): (request: IncomingMessage) => string {
  const direct = ({ socket }: IncomingMessage) => socket.remoteAddress ?? '';
  if (trusted === '') return direct;
  const isTrusted = parseNetworks(trusted);
  return (request) => {
    let address = direct(request);
    const hops = String(request.headers['x-forwarded-for'] ?? '').split(',');
    for (let hop = hops.pop(); hop !== undefined && isTrusted(address); hop = hops.pop()) {
      const next = withoutPort(hop.trim());
      if (isIP(next) === 0) break; // the proxy did not append an address
      address = next;
    }
    return address;
  };
}

/** Some proxies append the port. */
function withoutPort(text: string): string {
  return /^\[(.+)\](?::\d+)?$/.exec(text)?.[1] ?? /^([\d.]+):\d+$/.exec(text)?.[1] ?? text;
}
