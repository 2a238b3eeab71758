import { response } from '../shared/guide.ts';
import type { Rejections } from '../shared/rejections.ts';

const P8 = '-----BEGIN PRIVATE KEY-----\nMIGTAgEA+/\nBQ==\n-----END PRIVATE KEY-----\n';

/** The smallest and the largest config that a project can save. For tests. */
export const example = {
  minimal: serviceAccount(P8),
  full: serviceAccount('-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----'),
};

function serviceAccount(privateKey: string): object {
  return {
    type: 'service_account',
    project_id: 'p',
    private_key_id: 'i',
    private_key: privateKey,
    client_email: 'e',
    client_id: 'c',
    auth_uri: 'a',
    token_uri: 't',
    auth_provider_x509_cert_url: 'x',
    client_x509_cert_url: 'y',
    universe_domain: 'u',
  };
}

const rejection = (status: number, word: string, errorCode?: string) =>
  response(status, {
    error: { status: word, ...(errorCode === undefined ? {} : { details: [{ errorCode }] }) },
  });

export const rejections: Rejections = [
  ['UNAUTHENTICATED', rejection(401, 'UNAUTHENTICATED'), 'integration'],
  ['PERMISSION_DENIED', rejection(403, 'PERMISSION_DENIED'), 'integration'],
  ['THIRD_PARTY_AUTH_ERROR', rejection(401, 'UNAUTHENTICATED', 'THIRD_PARTY_AUTH_ERROR'), 'destination'],
  ['SENDER_ID_MISMATCH', rejection(403, 'PERMISSION_DENIED', 'SENDER_ID_MISMATCH'), 'destination'],
  ['NOT_FOUND', rejection(404, 'NOT_FOUND'), 'destination'],
  ['invalid_grant', { ...response(400, { error: 'invalid_grant' }), of: 'token' }, 'integration'],
  ['QUOTA_EXCEEDED', rejection(429, 'RESOURCE_EXHAUSTED', 'QUOTA_EXCEEDED'), 'vendor'],
];
