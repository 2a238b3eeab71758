import { LRUCache } from 'lru-cache';
import type { OriginSetting, Transport } from '../../../providers/shared/transport.ts';

/**
 * Returns the certificate in PEM at a vendor's URL, or undefined if it cannot be fetched. Caches both,
 * because the request that names the URL is not verified yet.
 */
export async function certificateAt(
  transport: Pick<Transport, 'vendor'>,
  setting: OriginSetting,
  url: string,
): Promise<string | undefined> {
  const kept = keptBy(transport);
  const known = kept.get(url);
  if (known !== undefined) return known;
  const fetching = fetchCertificate(transport, setting, url);
  kept.set(url, fetching);
  if ((await fetching) === undefined) kept.set(url, fetching, { ttl: MISSING_MS });
  return fetching;
}

// A vendor has one per region, and changes it about once a year.
const KEPT = 50;
const STORED_MS = 24 * 3_600_000;
const MISSING_MS = 10_000;
const MAX_BYTES = 64 * 1024;

type Kept = LRUCache<string, Promise<string | undefined>>;
const byTransport = new WeakMap<object, Kept>();

function keptBy(transport: object): Kept {
  const known = byTransport.get(transport);
  if (known !== undefined) return known;
  const made: Kept = new LRUCache({ max: KEPT, ttl: STORED_MS });
  byTransport.set(transport, made);
  return made;
}

async function fetchCertificate(
  transport: Pick<Transport, 'vendor'>,
  setting: OriginSetting,
  url: string,
): Promise<string | undefined> {
  const { origin, pathname } = new URL(url);
  const response = await transport
    .vendor(setting, origin)
    .request({ method: 'GET', path: pathname, maxResponseBytes: MAX_BYTES });
  return 'error' in response || response.status !== 200 ? undefined : response.text;
}
