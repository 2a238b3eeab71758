#!/bin/sh
# Sends a notification to two users, who need not exist yet, and waits until it has gone out.
# prints: processed: 2 addressed, 0 failed
set -eu
belfry=${BELFRY:-npx belfry}

$belfry send --wait \
  --to 42 --to ada@example.com \
  --title 'Your order is on its way' \
  --content 'It arrives <b>tomorrow</b>.' \
  --action-url https://shop.example/orders/1042 \
  --category orders
