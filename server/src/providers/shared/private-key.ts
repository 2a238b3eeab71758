import { createPrivateKey, type KeyObject } from 'node:crypto';

/**
 * Parses a PEM. Returns undefined if it is not a private key of the wanted type: RSA, or EC on the curve
 * P-256.
 */
export function privateKey(pem: string, wanted: 'rsa' | 'p256'): KeyObject | undefined {
  try {
    const key = createPrivateKey(pem);
    const { namedCurve } = key.asymmetricKeyDetails ?? {};
    const type =
      key.asymmetricKeyType === 'ec' && namedCurve === 'prime256v1' ? 'p256' : key.asymmetricKeyType;
    return type === wanted ? key : undefined;
  } catch {
    return undefined; // not a private key
  }
}
