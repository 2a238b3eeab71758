import { rm } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { type BelfryProcess, startBelfry } from '../support/belfry-process.ts';
import { newDataDir } from '../support/data-dir.ts';
import { startHttpStandIn } from '../support/http-stand-in.ts';
import { until } from '../support/service.ts';
import { QUEUED } from '../support/vendors.ts';

const RECIPIENTS = 200;
// The maximum number of messages at Twilio at the same time.
const IN_FLIGHT = 64;

test.runIf(process.platform === 'linux')(
  'two crashes in a row lose only text messages that were in flight both times',
  async () => {
    const dataDir = await newDataDir('text-messages');
    onTestFinished(() => rm(dataDir, { recursive: true, force: true }));
    const times = new Map<string, number>();
    const sent = () => [...times.values()].reduce((sum, count) => sum + count, 0);
    const twilio = await startHttpStandIn(async (_request, body) => {
      const number = new URLSearchParams(body.toString()).get('To') ?? '';
      times.set(number, (times.get(number) ?? 0) + 1);
      await delay(100); // like a vendor: messages in flight at a kill have no response yet
      return QUEUED;
    });
    onTestFinished(twilio.stop);
    let belfry: BelfryProcess | undefined;
    onTestFinished(() => belfry?.killTree());
    const start = async () => {
      belfry = await startBelfry(dataDir, { PROVIDER_TWILIO_BASE_URL: twilio.address });
      return belfry;
    };
    let server = await start();
    const config = { account_sid: 'AC1', api_key: 'SK1', api_secret: 'secret', from: '+14155550100' };
    await server.call('PUT', '/integrations/twilio', config);
    const recipients = Array.from({ length: RECIPIENTS }, (_, index) => ({
      external_id: `user-${index}`,
      phone_numbers: [`+1500555${1000 + index}`],
    }));
    const { body } = await server.call('POST', '/broadcasts', { title: 'Your code', recipients });
    for (let crash = 1; crash <= 2; crash += 1) {
      const before = sent();
      await until(sent, (count) => count > before);
      await server.killTree();
      server = await start();
    }
    const { body: broadcast } = await until(
      () => server.call('GET', `/broadcasts/${body.id}`),
      ({ body: { status } }) => status.status === 'processed' && (status.summary.pending ?? 0) === 0,
      { everyMs: 100 },
    );
    const unsent = RECIPIENTS - times.size;
    const thrice = [...times.values()].filter((count) => count > 2).length;
    console.log(
      `${unsent} of ${RECIPIENTS} never sent, ${sent() - times.size} sent twice, ${thrice} more often; ` +
        JSON.stringify(broadcast.status.summary),
    );
    expect(thrice).toBe(0);
    expect(unsent).toBeLessThanOrEqual(IN_FLIGHT);
    expect(broadcast.status.summary.failures).toBeLessThanOrEqual(IN_FLIGHT);
  },
);
