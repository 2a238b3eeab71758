#!/bin/sh
# How the certificates beside this file were made: a certificate authority of the tests' own, and one certificate by it
# for the names and addresses that stand-ins listen on. They prove nothing to anybody else, and are valid for a century.
set -eu
cd "$(dirname "$0")"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 36500 -subj '/CN=Test authority' \
  -addext 'basicConstraints=critical,CA:TRUE' -addext 'keyUsage=critical,keyCertSign' -keyout ca.key -out ca.crt
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj '/CN=localhost' -keyout server.key -out server.csr
printf 'subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1\nbasicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth\n' > server.ext
openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 36500 -extfile server.ext -out server.crt
rm -f server.csr server.ext ca.srl ca.key
# The same names, by nobody.
openssl req -x509 -key server.key -days 36500 -subj '/CN=localhost' \
  -addext 'subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1' -addext 'extendedKeyUsage=serverAuth' -out stranger.crt
# For what SNS signs.
openssl req -x509 -newkey rsa:2048 -nodes -days 36500 -subj '/CN=sns.amazonaws.com' -keyout sns.key -out sns.crt
