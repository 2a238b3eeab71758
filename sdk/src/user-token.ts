/** Whom a User JWT speaks for; external_id wins where both are given. */
export interface UserTokenOptions {
  /** The project's API key, `pk_…`. */
  apiKey: string;
  /** The project's API secret, `sk_…`: it stays on your server. */
  apiSecret: string;
  externalId?: string;
  email?: string;
  /** How long the token is good for. @default 3600 */
  expiresInSeconds?: number | undefined;
}

/** Makes a User JWT (HS256), on a server: whoever has the API secret can speak for every user. */
export async function createUserToken(options: UserTokenOptions): Promise<string> {
  const { apiKey, apiSecret, externalId, email, expiresInSeconds = 3600 } = options;
  if (externalId === undefined && email === undefined)
    throw new TypeError('createUserToken needs externalId or email');
  // An id that turned out undefined, null or blank must not leave a token that speaks for whoever has the
  // e-mail address.
  for (const name of ['externalId', 'email'] as const) {
    if (!(name in options)) continue;
    const value: unknown = options[name];
    if (typeof value !== 'string' || value.trim() === '')
      throw new TypeError(
        `createUserToken: ${name} is ${JSON.stringify(value)}; give a text, or leave it out`,
      );
  }
  const nowSeconds = Math.floor(Date.now() / 1000);
  const claims = {
    api_key: apiKey,
    user_external_id: externalId,
    user_email: email,
    iat: nowSeconds,
    exp: nowSeconds + expiresInSeconds,
  };
  const encoder = new TextEncoder();
  const json = (value: unknown) => base64url(encoder.encode(JSON.stringify(value)));
  const signed = `${json({ alg: 'HS256', typ: 'JWT' })}.${json(claims)}`;
  const algorithm = { name: 'HMAC', hash: 'SHA-256' };
  const key = await crypto.subtle.importKey('raw', encoder.encode(apiSecret), algorithm, false, ['sign']);
  const signature = await crypto.subtle.sign('HMAC', key, encoder.encode(signed));
  return `${signed}.${base64url(new Uint8Array(signature))}`;
}

function base64url(bytes: Uint8Array): string {
  const text = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(''));
  return text.replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '');
}
