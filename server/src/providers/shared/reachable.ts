import type { EgressGuard } from '../../lib/egress.ts';
import type { Finding } from '../provider.ts';

/**
 * Returns a finding if messages cannot be sent to an address that a customer gave: it must be a web address
 * whose host resolves to a permitted (public) IP address.
 */
export async function verifyReachable(egress: EgressGuard, field: string, url: string): Promise<Finding[]> {
  const { protocol, hostname } = new URL(url);
  if (protocol !== 'https:' && protocol !== 'http:')
    return [{ field, problem: 'is not a web address: it must begin with https://' }];
  try {
    await egress.resolve(hostname.replace(/^\[|\]$/g, ''));
    return [];
  } catch (error) {
    return [
      { field, problem: `cannot be reached: ${error instanceof Error ? error.message : String(error)}` },
    ];
  }
}
