/** Push to browsers. https://www.rfc-editor.org/rfc/rfc8292 */
import { createECDH } from 'node:crypto';
import { type Static, Type } from 'typebox';
import { type Finding, type Integration, secret } from './provider.ts';

const config = Type.Object(
  {
    public_key: Type.String({
      minLength: 8,
      maxLength: 128,
      description: 'The public VAPID key in base64url; browsers subscribe with it',
    }),
    private_key: secret({ minLength: 8, maxLength: 128, description: 'The private VAPID key in base64url' }),
  },
  {
    additionalProperties: false,
    examples: [
      {
        public_key: 'BDd3_hVL9fZi9Ybo2UUzA284WG5FZR30_95YeZJsiApwXKpNcF1rRPF3foIiBHXRdJI2Qhumhf6_LFTeZaNndIo',
        private_key: 'xKZKYRNdFFn8iQIF2MH54KTfUHwH105zBdzMR7SI3xI',
      },
    ],
  },
);
type Config = Static<typeof config>;

export const webPush: Integration<typeof config> & { channel: 'web_push' } = {
  name: 'web_push',
  channel: 'web_push',
  docs: 'https://www.rfc-editor.org/rfc/rfc8292',
  config,
  verify,
};

/** A fresh pair of VAPID keys. */
export function createVapidKeys(): Config {
  const pair = createECDH('prime256v1');
  pair.generateKeys();
  return { public_key: pair.getPublicKey('base64url'), private_key: padded(pair.getPrivateKey()) };
}

/** No vendor to ask: the keys are a pair or they are none. */
async function verify({ public_key, private_key }: Config): Promise<Finding[]> {
  const secretBytes = Buffer.from(private_key, 'base64url');
  const pair = createECDH('prime256v1');
  try {
    if (secretBytes.length !== 32) throw new Error('a P-256 key has 32 bytes');
    pair.setPrivateKey(secretBytes);
  } catch {
    return [{ field: 'private_key', problem: 'is not a VAPID key: 32 bytes in base64url' }];
  }
  if (pair.getPublicKey().equals(Buffer.from(public_key, 'base64url'))) return [];
  return [{ field: 'public_key', problem: 'is not the public key that belongs to the private one' }];
}

/** OpenSSL leaves leading zeros out; browsers and push services count 32 bytes. */
function padded(key: Buffer): string {
  return Buffer.concat([Buffer.alloc(32 - key.length), key]).toString('base64url');
}
