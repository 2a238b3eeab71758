import { createTransport } from 'nodemailer';
import { serveTask } from '../support/task.ts';

// Nodemailer alone, with the connections and a message like Belfry's.

const IN_FLIGHT = 64;

const HTML = `<!doctype html><html><head><meta charset="utf-8"><title>Your order is on its way</title></head><body style="margin:0;font-family:sans-serif"><table role="presentation" width="100%"><tr><td style="padding:24px"><h1>Your order is on its way</h1><div>It arrives <b>tomorrow</b>.</div><p><a href="https://shop.example/orders/1042">Open</a></p><p><a href="https://shop.example/unsubscribe/0123456789abcdef0123456789abcdef0123456789abcdef">Unsubscribe</a></p></td></tr></table></body></html>`;
const TEXT =
  'Your order is on its way\n\nIt arrives tomorrow.\n\nhttps://shop.example/orders/1042\n\n' +
  'Unsubscribe: https://shop.example/unsubscribe/0123456789abcdef\n';

serveTask<{ port: number; count: number }>(async ({ port, count }) => {
  const pool = createTransport({
    pool: true,
    host: '127.0.0.1',
    port,
    secure: false,
    ignoreTLS: true,
    maxConnections: 8,
    maxMessages: 500,
  });
  let next = 0;
  const startedMs = performance.now();
  await Promise.all(
    Array.from({ length: IN_FLIGHT }, async () => {
      while (next < count) {
        next += 1;
        await pool.sendMail({
          from: { name: 'The Shop', address: 'shop@example.com' },
          to: `user${next}@example.com`,
          subject: 'Your order is on its way',
          html: HTML,
          text: TEXT,
          headers: {
            'List-Unsubscribe': '<https://shop.example/unsubscribe/0123456789abcdef0123456789abcdef>',
            'List-Unsubscribe-Post': 'List-Unsubscribe=One-Click',
          },
        });
      }
    }),
  );
  const seconds = (performance.now() - startedMs) / 1000;
  const { user, system } = process.cpuUsage();
  pool.close();
  return { perSecond: count / seconds, cpuMicros: (user + system) / count };
});
