import { connect } from 'node:http2';
import { measured, type Rate } from '../support/in-flight.ts';
import { serveTask } from '../support/task.ts';

// Sends one prepared FCM push many times over one session of node:http2: the cost without Belfry.

const PATH = '/v1/projects/p/messages:send';
const HEADERS = { authorization: `Bearer ${'x'.repeat(200)}`, 'content-type': 'application/json' };
const BODY = JSON.stringify({
  message: {
    token: 'x'.repeat(152),
    notification: { title: 'Your order is on its way', body: 'It arrives tomorrow.' },
    data: {
      notification_id: '0198c0de-0000-7000-8000-00000000000a',
      action_url: 'https://shop.example/orders/1042',
      category: 'orders',
    },
    android: { ttl: '86400s', collapse_key: '0198c0de-0000-7000-8000-00000000000a' },
  },
});

serveTask<{ address: string; count: number; inFlight: number }>(
  async ({ address, count, inFlight }): Promise<Rate> => {
    const session = connect(address);
    const send = () =>
      new Promise((resolve, reject) => {
        const stream = session.request({ ':method': 'POST', ':path': PATH, ...HEADERS });
        stream.on('error', reject);
        stream.on('end', resolve);
        stream.resume();
        stream.end(BODY);
      });
    try {
      await measured(send, count / 4, inFlight);
      return await measured(send, count, inFlight);
    } finally {
      session.close();
    }
  },
);
