#!/bin/sh
# Replaces a Project JWT: issues the next one and, when it is in use, revokes the former one.
# Usage: rotate-token.sh [<jti of the former token>]; without it, issues a token to replace.
# prints: was revoked.
set -eu
belfry=${BELFRY:-npx belfry}
member() { sed -n "s/.*\"$1\": \"\(.*\)\".*/\1/p"; }
issue() { $belfry token issue --project default --name billing --expires 90d --json; }

old=${1:-$(issue | member jti)}
token=$(issue | member project_jwt)

# Here your program would take over the new token:
test -n "$token"

$belfry token revoke "$old"
