/** Three nodes send over an integration with a rate, as its vendor sees it. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Service, startService } from '../../src/app.ts';
import { processed, startTestService, type TestService } from '../support/service.ts';
import { startVendor, type VendorStandIn } from '../support/vendor-stand-in.ts';

const PER_SECOND = 25;
const BROADCASTS = 25;
const RECIPIENTS = 4;
let service: TestService;
let others: Service[];
let mailer: VendorStandIn;

beforeAll(async () => {
  mailer = await startVendor();
  service = await startTestService({ pollMs: 50 });
  const { config, log } = service.context;
  const start = () => startService(config, { log, pollMs: 50 });
  others = [await start(), await start()];
});
afterAll(async () => {
  await Promise.all((others ?? []).map((other) => other.stop()));
  await service?.stop();
  await mailer?.stop();
});

test('the vendor gets what it allows, evenly, and every message once', async () => {
  const { call } = service.project;
  const url = `${mailer.address}/mail`;
  expect((await call('PUT', '/integrations/ping_email', { url, max_per_second: PER_SECOND })).status).toBe(
    200,
  );
  const times: number[] = [];
  mailer.reply(() => {
    times.push(performance.now());
    return { status: 200 };
  });
  const sent = await Promise.all(
    Array.from({ length: BROADCASTS }, (_, broadcast) => {
      const recipients = Array.from({ length: RECIPIENTS }, (_, n) => ({
        external_id: `${broadcast}.${n}`,
        email: `${broadcast}.${n}@example.com`,
      }));
      return call('POST', '/broadcasts', { title: `Broadcast ${broadcast}`, recipients });
    }),
  );
  expect(await service.rows('select from leases where expires_at > now()')).toHaveLength(3);
  for (const { body } of sent) await processed(call, body.id);
  await expect.poll(() => times.length).toBe(BROADCASTS * RECIPIENTS);
  // Three nodes that each used the whole rate would need a third of the time. A message can only be late, so
  // the margin is for the first one.
  const [first = 0, last = 0] = [times[0], times.at(-1)];
  expect(last - first).toBeGreaterThan(((times.length - 1) / PER_SECOND) * 1_000 - 1_000);
  const summaries = await Promise.all(sent.map(({ body }) => call('GET', `/broadcasts/${body.id}`)));
  for (const { body } of summaries) expect(body.status.summary).toMatchObject({ failures: 0 });
});
