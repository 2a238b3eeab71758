import { expect, test } from 'vitest';
import { tlsProblem } from './tls-problem.ts';

test.each([
  ['CERT_HAS_EXPIRED', 'certificate has expired', 'the certificate has expired'],
  [
    'ERR_TLS_CERT_ALTNAME_INVALID',
    "Hostname/IP does not match certificate's altnames: Host: a. is not in the cert's altnames: DNS:b",
    'the certificate is for another host name',
  ],
  [
    'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
    'unable to verify the first certificate; if the root CA is installed locally, try running Node.js with ' +
      '--use-system-ca',
    /^the certificate is not signed by an authority that Belfry trusts, .* NODE_EXTRA_CA_CERTS /,
  ],
  [
    'ERR_SSL_WRONG_VERSION_NUMBER',
    '40CD28875A7F0000:error:0A00010B:SSL routines:tls_validate_record_header:wrong version number:' +
      '../deps/openssl/openssl/ssl/record/methods/tlsany_meth.c:77:\n',
    'the port does not speak TLS',
  ],
  [
    'ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION',
    '40CD:error:0A00042E:SSL routines:ssl3_read_bytes:tlsv1 alert protocol version:../deps/rec.c:1600:SSL ' +
      'alert number 70\n',
    'tlsv1 alert protocol version',
  ],
  ['EPROTO', 'write EPROTO', 'write EPROTO'],
])('%s in words', (code, message, problem) => {
  expect(tlsProblem({ code, message })).toMatch(problem);
});
