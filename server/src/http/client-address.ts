import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import { parseNetworks } from '../lib/networks.ts';

/**
 * Finds out the address that a request comes from. What `X-Forwarded-For` says is believed only of the
 * proxies in `trusted`, CIDR blocks separated by commas: each has added the address that it was reached from,
 * so the list is read from its end, and the first address that is no such proxy's is the client's. What
 * stands before that, the client may have written itself.
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
      if (isIP(next) === 0) break; // then it is the proxy's own doing, and the proxy's to answer for
      address = next;
    }
    return address;
  };
}

/** Some proxies write the port, too. */
function withoutPort(text: string): string {
  return /^\[(.+)\](?::\d+)?$/.exec(text)?.[1] ?? /^([\d.]+):\d+$/.exec(text)?.[1] ?? text;
}
