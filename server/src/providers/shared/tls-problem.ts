/**
 * Returns why TLS failed, in words for people. The messages of OpenSSL name its functions and source files,
 * and those of Node address the person who starts it.
 */
export function tlsProblem({ code, message }: { code: string; message: string }): string {
  const known = PROBLEMS.find(([codes]) => codes.test(code))?.[1];
  return known ?? message.replace(/^.*SSL routines:[^:]*:([^:]+).*$/s, '$1');
}

const PROBLEMS: readonly (readonly [codes: RegExp, problem: string])[] = [
  [/^CERT_HAS_EXPIRED$/, 'the certificate has expired'],
  [/^CERT_NOT_YET_VALID$/, 'the certificate is not valid yet'],
  [/^(?:ERR_TLS_CERT_ALTNAME_INVALID|HOSTNAME_MISMATCH)$/, 'the certificate is for another host name'],
  [
    /SELF_SIGNED|^UNABLE_TO_|^INVALID_CA$/,
    'the certificate is not signed by an authority that Belfry trusts, or its chain is incomplete. ' +
      'The setting NODE_EXTRA_CA_CERTS adds an authority',
  ],
  [/^ERR_SSL_(?:WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG|HTTP_REQUEST)$/, 'the port does not speak TLS'],
];
