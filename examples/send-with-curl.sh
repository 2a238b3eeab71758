#!/bin/sh
# The same with curl: the address and the Project JWT stand in credentials.json.
# prints: "status":"enqueued"
set -eu
credentials=${DATA_DIR:-./data}/credentials.json
value() { sed -n "s/.*\"$1\": \"\(.*\)\".*/\1/p" "$credentials"; }

curl --silent --show-error --fail-with-body "$(value base_url)/broadcasts" \
  -H "Authorization: Bearer $(value project_jwt)" \
  -H 'Content-Type: application/json' \
  -H 'Idempotency-Key: order-1042-shipped' \
  -d '{"title": "Your order is on its way", "recipients": [{"external_id": "42"}]}'
