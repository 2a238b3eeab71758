import { LRUCache } from 'lru-cache';
import type { OriginSetting, Transport } from '../../../providers/shared/transport.ts';

/**
 * Returns the certificate, in PEM, at an address of a vendor's; undefined if it cannot be fetched. It is
 * cached, and for a while so is its absence: the request that names it is not verified yet.
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

// A vendor has one for each region, and changes it once a year or so.
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
