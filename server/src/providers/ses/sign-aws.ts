/**
 * AWS Signature Version 4.
 * https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
 */
import { createHmac, hash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { hmacText } from '../shared/hmac.ts';

/**
 * The parts that requests to AWS have in common. `path` begins with a slash and may end with a query; all
 * `headers` are signed.
 */
type AwsRequests = {
  method: string;
  host: string;
  path: string;
  headers?: Readonly<Record<string, string>>;
  service: string;
  region: string;
  keyId: string;
  secretKey: string;
};

/** The request's headers with the signature. */
export function signAws({
  body = '',
  nowMs,
  ...request
}: AwsRequests & { body?: string | Buffer; nowMs: number }): Record<string, string> {
  return awsSigner(request)(body, nowMs);
}

/** Returns `signAws` for requests that differ only in body and time: everything else is computed once. */
export function awsSigner({
  method,
  host,
  path,
  headers = {},
  service,
  region,
  keyId,
  secretKey,
}: AwsRequests): (body: string | Buffer, nowMs: number) => Record<string, string> {
  const signed = Object.entries<string>({ ...headers, host, 'x-amz-date': '' })
    .map(([name, value]) => [name.toLowerCase(), value.trim().replace(/ +/g, ' ')] as const)
    .sort(([a], [b]) => (a < b ? -1 : 1));
  const names = signed.map(([name]) => name).join(';');
  const lines = signed.map(([name, value]) => `${name}:${value}`);
  const dateIndex = lines.indexOf('x-amz-date:');
  const before = [method, ...canonicalPath(path), ...lines.slice(0, dateIndex), 'x-amz-date:'].join('\n');
  const after = ['', ...lines.slice(dateIndex + 1), '', names, ''].join('\n');
  let second = Number.NaN; // the second that `at`, `scope` and `key` belong to
  let at = '';
  let scope = '';
  let key = Buffer.alloc(0);

  function setSecond(nowSecond: number): void {
    second = nowSecond;
    at = new Date(nowSecond * 1000).toISOString().replace(/[-:]|\.\d{3}/g, '');
    scope = `${at.slice(0, 8)}/${region}/${service}/aws4_request`;
    key = signingKey(secretKey, scope);
  }

  return (body, nowMs) => {
    const nowSecond = Math.floor(nowMs / 1000);
    if (nowSecond !== second) setSecond(nowSecond);
    const canonical = `${before}${at}${after}${sha256(body)}`;
    const text = `AWS4-HMAC-SHA256\n${at}\n${scope}\n${sha256(canonical)}`;
    const signature = hmacText(key, text, 'hex');
    return {
      ...headers,
      'x-amz-date': at,
      // language-ignore: one header
      authorization: `AWS4-HMAC-SHA256 Credential=${keyId}/${scope}, SignedHeaders=${names}, Signature=${signature}`,
    };
  };
}

/** Returns the canonical path and query string, cached because all e-mails have the same. */
function canonicalPath(path: string): readonly [path: string, query: string] {
  const known = canonicalPaths.get(path);
  if (known !== undefined) return known;
  const { pathname, searchParams } = new URL(path, 'https://host');
  const canonical = [
    // The path is already percent-encoded; AWS signs it encoded once more, for every service except S3.
    pathname.split('/').map(escaped).join('/'),
    // Sorted by name, then by value: whole pairs sort differently if one name is a prefix of another.
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

/** Returns the signing key of a day, a region and a service. */
function signingKey(secretKey: string, scope: string): Buffer<ArrayBuffer> {
  const name = `${scope}/${secretKey}`;
  const known = signingKeys.get(name);
  if (known !== undefined) return known;
  // The secret may be longer than a block of the hash; createHmac handles that.
  const key = scope.split('/').reduce<string | Buffer>(hmacSha256, `AWS4${secretKey}`) as Buffer<ArrayBuffer>;
  signingKeys.set(name, key);
  return key;
}

const signingKeys = new LRUCache<string, Buffer<ArrayBuffer>>({ max: 1_000 });

function sha256(text: string | Buffer): string {
  return hash('sha256', text);
}

function hmacSha256(key: string | Buffer, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest();
}
