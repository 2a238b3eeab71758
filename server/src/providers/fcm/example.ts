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
