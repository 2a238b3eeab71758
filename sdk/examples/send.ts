// Sends a notification to two users, which need not exist yet, and waits until it is processed.
// prints: processed: 2 addressed, 0 failed
import { setTimeout } from 'node:timers/promises';
import { ProjectClient } from '@belfry/sdk';

const { BELFRY_URL = 'http://127.0.0.1:3000/v2', BELFRY_PROJECT_JWT = '' } = process.env;
const belfry = new ProjectClient({ baseUrl: BELFRY_URL, token: BELFRY_PROJECT_JWT });

let broadcast = await belfry.broadcasts.create(
  {
    title: 'Your order is on its way',
    content: 'It arrives <b>tomorrow</b>.',
    action_url: 'https://shop.example/orders/1042',
    category: 'orders',
    recipients: [{ external_id: '42' }, { email: 'ada@example.com', first_name: 'Ada' }],
  },
  // Makes running this program twice send only once. Retries of the client need no key.
  { idempotencyKey: 'order-1042-on-its-way' },
);
while (broadcast.status.status !== 'processed') {
  await setTimeout(200);
  broadcast = await belfry.broadcasts.get(broadcast.id);
}
const { total, failures } = broadcast.status.summary;
console.log(`processed: ${total} addressed, ${failures} failed`);
