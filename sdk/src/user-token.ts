/** The user of a User JWT. With both, the external id decides. */
export interface UserTokenOptions {
  /** The API key of the project, `pk_…`. */
  apiKey: string;
  /** The API secret of the project, `sk_…`. Keep it on your server. */
  apiSecret: string;
  externalId?: string;
  email?: string;
  /** How long the token is valid. @default 3600 */
  expiresInSeconds?: number | undefined;
}

/** Creates a User JWT (HS256). For servers only: the API secret gives access to every user. */
export async function createUserToken(options: UserTokenOptions): Promise<string> {
  const { apiKey, apiSecret, externalId, email, expiresInSeconds = 3600 } = options;
  if (externalId === undefined && email === undefined)
    throw new TypeError('createUserToken needs externalId or email');
  // An id that is undefined, null or blank by mistake must not create a token for the user with this e-mail
  // address.
  for (const name of ['externalId', 'email'] as const) {
    if (!(name in options)) continue;
    const value: unknown = options[name];
    if (typeof value !== 'string' || value.trim() === '')
      throw new TypeError(
        `createUserToken: ${name} is ${JSON.stringify(value)}; pass a string or leave it out`,
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
