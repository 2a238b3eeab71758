#!/bin/sh
# Sends a broadcast that is more than flags can say: names for a new user, and another title on e-mails.
# prints: processed: 1 addressed, 0 failed
set -eu
belfry=${BELFRY:-npx belfry}

$belfry send --wait - <<'JSON'
{
  "title": "Invoice 2026-118",
  "content": "Due on the <b>15th</b>.",
  "recipients": [{ "external_id": "42", "first_name": "Ada", "custom_attributes": { "plan": "pro" } }],
  "overrides": { "channels": { "email": { "title": "Your invoice 2026-118" } } }
}
JSON
