import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { NamedProject } from '../domain/setup/cells/directory.ts';
import { isApiKey } from '../domain/setup/projects/create.ts';
import { idOfBytes, isId } from '../lib/ids.ts';
import { decodeJwt } from '../lib/jwt.ts';
import { brandHeader } from './brand.ts';

/** Returns the project that a request names, without verifying anything; undefined if it names none. */
export type ProjectReader = (request: Pick<IncomingMessage, 'headers' | 'url'>) => NamedProject | undefined;

// What these serve belongs to the node. With an API key, /metrics is a path of version 1.
const OF_NODE = /^\/(?:healthz|readyz)\/?$/;
const METRICS = /^\/metrics\/?$/;
// Vendors name an integration, and different projects may have integrations with the same id.
const WEBHOOKS = /^\/v2\/integrations\/[^/]+\/webhooks\/incoming(?:\/|$)/;
// The links of messages (domain/ground/links): the project follows the first byte of a token.
const LINKS = /^\/(?:unsubscribe|preferences)\/([\w-]{24})/;
const TRACKED = /^\/t\/[co]\/[ew]([\w-]{22})/;
// A browser can send no header with a WebSocket.
const SUBPROTOCOL = /(?:^|,)\s*belfry\.jwt\.([\w.-]+)/;

/** Makes the reader for a server with this brand. */
export function projectReader(brand: string): ProjectReader {
  const apiKeyOf = brandHeader(brand, 'api-key');

  return ({ headers, url = '/' }) => {
    const [encoded = '/', query = ''] = url.split('?', 2);
    const path = decoded(encoded);
    if (OF_NODE.test(path) || WEBHOOKS.test(path)) return undefined;
    if (METRICS.test(path) && apiKeyOf(headers) === undefined) return undefined;
    return ofLink(path) ?? ofHeaders(headers) ?? ofKey(new URLSearchParams(query).get('api_key'));
  };

  function ofHeaders(headers: IncomingHttpHeaders): NamedProject | undefined {
    const bearer = /^Bearer +([^\s,]+)$/i.exec(headers.authorization ?? '')?.[1];
    const offered = SUBPROTOCOL.exec(headers['sec-websocket-protocol'] ?? '')?.[1];
    return ofToken(bearer) ?? ofKey(apiKeyOf(headers)) ?? ofToken(offered);
  }
}

/** As the router decodes it: e-mail programs encode links in their own ways. */
function decoded(path: string): string {
  if (!path.includes('%')) return path;
  try {
    return decodeURIComponent(path);
  } catch {
    return path; // it is rejected later
  }
}

function ofLink(path: string): NamedProject | undefined {
  const link = LINKS.exec(path)?.[1];
  if (link !== undefined) return ofBytes(Buffer.from(link, 'base64url').subarray(1, 17));
  const tracked = TRACKED.exec(path)?.[1];
  return tracked === undefined ? undefined : ofBytes(Buffer.from(tracked, 'base64url'));
}

function ofBytes(bytes: Buffer): NamedProject | undefined {
  return ofId(idOfBytes(bytes));
}

/** As `readIssuer` reads the claims: a token with an API key is a User JWT. */
function ofToken(token: string | undefined): NamedProject | undefined {
  const claims = token === undefined ? undefined : decodeJwt(token);
  if (claims === undefined) return undefined;
  return claims.api_key === undefined ? ofId(claims.sub) : ofKey(claims.api_key);
}

function ofId(id: unknown): NamedProject | undefined {
  return typeof id === 'string' && isId(id) ? { projectId: id } : undefined;
}

function ofKey(apiKey: unknown): NamedProject | undefined {
  return typeof apiKey === 'string' && isApiKey(apiKey) ? { apiKey } : undefined;
}
