import { createPrivateKey, type KeyObject, sign } from 'node:crypto';

/** A JWT that a vendor knows us by: ES256 with an EC key, RS256 with an RSA key. */
export function signJwt({
  header,
  claims,
  key,
}: {
  header: { alg: 'ES256' | 'RS256'; [name: string]: string };
  claims: Readonly<Record<string, unknown>>;
  key: KeyObject;
}): string {
  const text = `${base64url(header)}.${base64url(claims)}`;
  // A JWT has the two numbers of an ECDSA signature side by side, not in DER (RFC 7518, 3.4).
  const signature = sign('sha256', Buffer.from(text), { key, dsaEncoding: 'ieee-p1363' });
  return `${text}.${signature.toString('base64url')}`;
}

/** The private key in this PEM when it is of the wanted kind: RSA, or EC on the curve P-256. */
export function privateKey(pem: string, kind: 'rsa' | 'p256'): KeyObject | undefined {
  try {
    const key = createPrivateKey(pem);
    const { namedCurve } = key.asymmetricKeyDetails ?? {};
    const found =
      key.asymmetricKeyType === 'ec' && namedCurve === 'prime256v1' ? 'p256' : key.asymmetricKeyType;
    return found === kind ? key : undefined;
  } catch {
    return undefined; // not a key at all
  }
}

function base64url(part: object): string {
  return Buffer.from(JSON.stringify(part)).toString('base64url');
}
