import { afterAll, beforeAll, expect, test } from 'vitest';
import { startVendor, type VendorStandIn } from '../../../test/support/vendor-stand-in.ts';
import { createEgressGuard } from '../../lib/egress.ts';
import { requestJson } from './request-json.ts';
import { createTransport, type Transport } from './transport.ts';

let vendor: VendorStandIn;
let transport: Transport;
beforeAll(async () => {
  vendor = await startVendor();
  transport = createTransport({ egress: createEgressGuard({ allow: '127.0.0.0/8' }) });
});
afterAll(async () => {
  await transport.close();
  await vendor.stop();
});

test.each([
  ['authorization', 'Bearer canary-token', 'canary-token'],
  ['x-server-token', 'canary-token', 'canary-token'],
  ['X-Auth', 'key=canary-token', 'canary-token'],
])('a secret in the header %s is not in the summary', async (name, value, secret) => {
  vendor.reply({ status: 401, body: { message: `the token ${secret} in ${value} is not valid` } });
  const request = {
    method: 'GET',
    path: '/',
    headers: { [name]: value, accept: 'application/json' },
  } as const;
  const { summary } = await requestJson(transport.at(vendor.address), request);
  expect(vendor.requests.at(-1)?.headers).toMatchObject({ [name.toLowerCase()]: value });
  expect(summary).toMatch(/^401 the token •+ in /);
  expect(summary).not.toContain(secret);
});
