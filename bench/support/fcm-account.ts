import { generateKeyPairSync } from 'node:crypto';

/** A Firebase service account with a new key, for a stand-in that issues tokens at `tokenUri`. */
export function fcmAccount(tokenUri: string) {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  return {
    type: 'service_account' as const,
    project_id: 'p',
    private_key_id: 'i',
    private_key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    client_email: 'push@p.example',
    client_id: '1',
    auth_uri: 'https://accounts.google.com/o/oauth2/auth',
    token_uri: tokenUri,
    auth_provider_x509_cert_url: 'https://www.googleapis.com/oauth2/v1/certs',
    client_x509_cert_url: 'https://www.googleapis.com/robot/v1/metadata/x509/p',
    universe_domain: 'googleapis.com',
  };
}
