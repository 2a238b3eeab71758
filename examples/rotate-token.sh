#!/bin/sh
# Replaces a Project JWT: issues the next one, and when it is in use, revokes the one before.
# prints: is revoked.
set -eu
belfry=${BELFRY:-npx belfry}
member() { sed -n "s/.*\"$1\": \"\(.*\)\".*/\1/p"; }

old=$($belfry token issue --project default --name billing --expires 90d --json)
new=$($belfry token issue --project default --name billing --expires 90d --json)

# Here your program would take over the new token:
token=$(echo "$new" | member project_jwt)
test -n "$token"

$belfry token revoke "$(echo "$old" | member jti)"
