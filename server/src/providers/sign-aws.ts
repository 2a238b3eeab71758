/** AWS Signature Version 4. https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html */
import { createHmac, hash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { hmacText } from './hmac.ts';

/** A request to AWS: `path` begins with a slash and may end with a query; every header of `headers` is signed. */
type AwsRequest = {
  method: string;
  host: string;
  path: string;
  headers?: Readonly<Record<string, string>>;
  body?: string | Buffer;
  service: string;
  region: string;
  keyId: string;
  secretKey: string;
  nowMs: number;
};

/** The request's headers with those that prove who sends it. */
export function signAws(request: AwsRequest): Record<string, string> {
  const { method, host, path, headers = {}, body = '', service, region, keyId, secretKey, nowMs } = request;
  const at = `${new Date(nowMs).toISOString().replace(/[-:]|\.\d{3}/g, '')}`;
  const signed = Object.entries<string>({ ...headers, host, 'x-amz-date': at })
    .map(([name, value]) => [name.toLowerCase(), value.trim().replace(/ +/g, ' ')] as const)
    .sort(([a], [b]) => (a < b ? -1 : 1));
  const names = signed.map(([name]) => name).join(';');
  const canonical = [
    method,
    ...canonicalPath(path),
    ...signed.map(([name, value]) => `${name}:${value}`),
    '',
    names,
    sha256(body),
  ].join('\n');
  const scope = `${at.slice(0, 8)}/${region}/${service}/aws4_request`;
  const text = `AWS4-HMAC-SHA256\n${at}\n${scope}\n${sha256(canonical)}`;
  const key = signingKey(secretKey, scope);
  const signature = hmacText(key, text, 'hex');
  return {
    ...headers,
    'x-amz-date': at,
    authorization: `AWS4-HMAC-SHA256 Credential=${keyId}/${scope}, SignedHeaders=${names}, Signature=${signature}`,
  };
}

/** The path and the query as they are signed: the same for all e-mails. */
function canonicalPath(path: string): readonly [path: string, query: string] {
  const held = canonicalPaths.get(path);
  if (held !== undefined) return held;
  const { pathname, searchParams } = new URL(path, 'https://host');
  const canonical = [
    // The path as it travels is escaped; AWS signs it escaped once more, for every service but S3.
    pathname.split('/').map(escaped).join('/'),
    // By name, then by value: a whole pair sorts differently where one name begins with another.
    [...searchParams]
      .map(([name, value]) => [escaped(name), escaped(value)] as const)
      .sort(([a, x], [b, y]) => (a === b ? order(x, y) : order(a, b)))
      .map((pair) => pair.join('='))
      .join('&'),
  ] as const;
  canonicalPaths.set(path, canonical);
  return canonical;
}

const canonicalPaths = new LRUCache<string, readonly [path: string, query: string]>({ max: 100 });

function escaped(text: string): string {
  return encodeURIComponent(text).replace(
    /[!'()*]/g,
    (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

function order(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}

/** Of the day, the region and the service: it is the same for all requests of a day. */
function signingKey(secretKey: string, scope: string): Buffer {
  const name = `${scope}/${secretKey}`;
  const held = signingKeys.get(name);
  if (held !== undefined) return held;
  // The secret may be longer than a block, and so is hashed first.
  const key = scope.split('/').reduce<string | Buffer>(hmacOfAny, `AWS4${secretKey}`) as Buffer;
  signingKeys.set(name, key);
  return key;
}

const signingKeys = new LRUCache<string, Buffer>({ max: 1_000 });

function sha256(text: string | Buffer): string {
  return hash('sha256', text);
}

function hmacOfAny(key: string | Buffer, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest();
}
