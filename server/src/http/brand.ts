import type { IncomingHttpHeaders } from 'node:http';
import type { FastifyRequest } from 'fastify';
import { shorten } from '../contract/problems.ts';

// The brand in the contract, which is always accepted.
const CONTRACT_BRAND = 'service';

/** The headers `x-<brand>-…` that clients may send. */
export const BRAND_HEADERS = [
  'api-key',
  'api-secret',
  'user-external-id',
  'user-email',
  'user-hmac',
  'client-user-agent',
  'client-telemetry',
  'client-id',
] as const;

/** The accepted brand words, with the published one first. */
export function brandWords(brand: string): string[] {
  return brand === CONTRACT_BRAND ? [brand] : [brand, CONTRACT_BRAND];
}

/** Returns a function that reads the header `x-<brand>-<name>` in either spelling; the published one wins. */
export function brandHeader(
  brand: string,
  name: (typeof BRAND_HEADERS)[number],
): (headers: IncomingHttpHeaders) => string | undefined {
  const spelled = brandWords(brand).map((word) => `x-${word}-${name}`);
  return (headers) => {
    for (const header of spelled) {
      const value = headers[header];
      if (value !== undefined) return Array.isArray(value) ? value[0] : value;
    }
    return undefined;
  };
}

/** A route's path in every spelling of `<brand>`; one of them is published. */
export function spellings(url: string, brand: string): { url: string; published: boolean }[] {
  if (!url.includes('<brand>')) return [{ url, published: true }];
  return brandWords(brand).map((word, index) => ({
    url: url.replace('<brand>', word),
    published: index === 0,
  }));
}

/**
 * Returns a function with the problems of every query parameter that is not `known`, every cookie, and every
 * unknown header of the brand.
 */
export function unknownPartsOf(
  brand: string,
  known: readonly string[],
): (request: Pick<FastifyRequest, 'query' | 'headers'>) => string[] {
  const prefixes = brandWords(brand).map((word) => `x-${word}-`);
  const names = new Set(prefixes.flatMap((prefix) => BRAND_HEADERS.map((name) => `${prefix}${name}`)));
  const isKnown = (header: string) =>
    names.has(header) || !prefixes.some((prefix) => header.startsWith(prefix));
  return ({ query, headers }) => {
    const problems: string[] = [];
    for (const name of Object.keys(query as object))
      if (!known.includes(name)) problems.push(`Query parameter '${shorten(name)}' is not known`);
    for (const cookie of cookieNames(headers.cookie))
      problems.push(`Cookie '${shorten(cookie)}' is not known`);
    for (const name of Object.keys(headers))
      if (name.startsWith('x-') && !isKnown(name)) problems.push(`Header '${shorten(name)}' is not known`);
    return problems.slice(0, 100);
  };
}

function cookieNames(header: string | undefined): string[] {
  if (header === undefined) return [];
  return header.split(';').map((pair) => pair.split('=', 1)[0]?.trim() ?? '');
}
