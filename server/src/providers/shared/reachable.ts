import type { EgressGuard } from '../../lib/egress.ts';
import type { Finding } from '../provider.ts';

/**
 * Whether an address that a customer gave could be called: a web address, whose host exists and is none of
 * ours.
 */
export async function reachable(egress: EgressGuard, field: string, url: string): Promise<Finding[]> {
  const { protocol, hostname } = new URL(url);
  if (protocol !== 'https:' && protocol !== 'http:')
    return [{ field, problem: 'is not a web address: it has to begin with https://' }];
  try {
    await egress.resolve(hostname.replace(/^\[|\]$/g, ''));
    return [];
  } catch (error) {
    return [
      { field, problem: `cannot be reached: ${error instanceof Error ? error.message : String(error)}` },
    ];
  }
}
